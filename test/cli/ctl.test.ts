import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { loadOf } from "../../src/domain/load-sample.ts";
import { Nodes, Status } from "../../src/protocol/api.ts";
import { newSecret } from "../../src/protocol/secrets.ts";
import { type Outcome, type RunOptions, runLlmgw } from "../support/cli.ts";
import { temporaryFolder } from "../support/folders.ts";
import { findingsOf, inventoryOf } from "../support/machines.ts";
import { until } from "../support/processes.ts";
import { type HandAgent, handAgent, random, testServer } from "../support/server.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";

const server = await testServer();
const agents: HandAgent[] = [];
const state = server.running.stateDir;

afterAll(async () => {
  for (const agent of agents) agent[Symbol.dispose]();
  await server[Symbol.asyncDispose]();
});

/** As an operator on the server's machine would. */
const ctl = (words: string, options: RunOptions = {}): Promise<Outcome> =>
  runLlmgw(["ctl", ...words.split(" "), "--state", state], { now: new Date(), ...options });

async function node(name: string, machine: string): Promise<HandAgent> {
  const agent = await handAgent(server, await server.joined(name));
  agents.push(agent);
  agent.send({ kind: "hello", protocol: 1, node_id: name, instance: name, agent_version: "1.0.0", hostname: name, machine });
  await agent.next("welcome");
  const inventory = await inventoryOf(machine);
  agent.send({ kind: "inventory", revision: 1, hash: "h", inventory });
  await agent.next("ack");
  const { findings } = await findingsOf(machine);
  agent.send({ kind: "findings", revision: 1, hash: "f", findings: findings.filter((finding) => finding.result === "problem") });
  await agent.next("ack");
  agent.send({ kind: "beat", seq: 0, load: loadOf(inventory, "2026-12-01T00:00:00Z") });
  await agent.next("ack");
  return agent;
}

/** What passes by the second. */
const steady = (text: string): string => text.replace(/ +\d+ s/g, " N s").replaceAll(server.running.url, "URL");

let hot: HandAgent;
beforeAll(async () => {
  await node("gpu-01", "a100-mig-mixed");
  hot = await node("gpu-02", "thermal-power-brake");
});

describe("ctl nodes", () => {
  test("counts devices by class, and says how each node is", async () => {
    const { stdout, stderr, exitCode } = await ctl("nodes");
    expect([exitCode, stderr]).toEqual([0, ""]);
    const lines = steady(stdout).trimEnd().split("\n");
    expect(lines[0]).toMatch(/^NODE +STATE +DEVICES +HEALTH +SEEN +VERSION$/);
    expect(lines[1]).toMatch(/^gpu-01 +ready +3 × a100-80g, 1 × a100-80g-mig-3g.40gb, .* ok N s +1\.0\.0$/);
    expect(lines[2]).toMatch(/^gpu-02 +ready +2 × l40s-48g \(2 not healthy\) +2 degraded, 2 devices not healthy +N s +1\.0\.0$/);
  });

  test("as data fit the schema, without the moment at which they were asked", async () => {
    const data = JSON.parse((await ctl("nodes --json")).stdout);
    expect(v.parse(Nodes, data).nodes.map((one) => one.node_id)).toEqual(["gpu-01", "gpu-02"]);
    expect(Object.keys(data)).toEqual(["nodes"]);
  });

  test("show tells all about one: inventory, findings, load", async () => {
    const { stdout, exitCode } = await ctl("nodes show gpu-02");
    expect(exitCode).toBe(0);
    for (const text of [
      "gpu-02: ready, connected",
      "the recorded machine thermal-power-brake stands for it",
      "GPUs (2, via nvidia-smi)",
      "gpu-thermal: card 0",
      "Load at 2026-12-01 00:00:00Z",
      "91 °C",
    ]) {
      expect(stdout).toContain(text);
    }
    expect(await ctl("nodes show nope")).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('there is no node "nope"') });
    expect(await ctl("nodes show ../tokens")).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("is no name of a node") });
  });

  test("cordon and uncordon, with the way back in the answer", async () => {
    expect((await ctl("nodes cordon gpu-01 --reason fans")).stdout).toContain("undo: llmgw ctl nodes uncordon gpu-01");
    expect((await ctl("nodes show gpu-01")).stdout).toMatch(/gpu-01: cordoned, connected\n +cordoned +fans/);
    expect((await ctl("nodes uncordon gpu-01")).exitCode).toBe(0);
    expect((await ctl("nodes")).stdout).not.toContain("cordoned");
    expect(await ctl("nodes cordon nope")).toMatchObject({ exitCode: 1 });
  });

  test("remove looks first, asks, and does it only when told to", async () => {
    await node("spare", "cpu-only");
    expect((await ctl("nodes remove spare --dry-run")).stdout).toContain("would remove node spare: it is ready");
    expect(await ctl("nodes remove spare")).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("nobody is there to be asked") });
    const asked: string[] = [];
    const say = (answer: string) => (question: string) => {
      asked.push(question);
      return answer;
    };
    const no = await ctl("nodes remove spare", { answers: say("n") });
    expect([no.exitCode, no.stdout]).toEqual([1, "node spare stays\n"]);
    expect(asked).toEqual([expect.stringMatching(/^Remove node spare\? It is ready; .* \[y\/N\] $/)]);
    expect((await ctl("nodes show spare")).exitCode).toBe(0);
    expect((await ctl("nodes remove spare", { answers: () => "y" })).stdout).toBe("node spare is removed\n");
    expect((await ctl("nodes remove spare --yes")).exitCode).toBe(1);
  });

  test("whose texts hold commands to a terminal are shown as what they are", async () => {
    const evil = await handAgent(server, await server.joined("evil"));
    agents.push(evil);
    evil.send({ kind: "hello", protocol: 1, node_id: "evil", instance: "e", agent_version: "\u001b[2J\u009b31m" });
    await evil.next("welcome");
    const { stdout } = await ctl("nodes");
    expect(stdout).toContain("\\u{1b}[2J\\u{9b}31m");
    await ctl("nodes remove evil --yes");
  });
});

describe("ctl status, fabrics, events", () => {
  test("status adds the cluster up, and says what to look at", async () => {
    const { stdout } = await ctl("status");
    expect(stdout).toContain("nodes     2: 2 ready");
    expect(stdout).toContain("2 × l40s-48g (2 not healthy)");
    expect(stdout).toContain("problems  2 degraded");
    v.parse(Status, JSON.parse((await ctl("status --json")).stdout));
  });

  test("fabrics show what was declared and what was not", async () => {
    await node("two-rails", "two-fabrics-same-prefix");
    const { stdout } = await ctl("fabrics");
    expect(stdout).toContain("rail0: 1 port of 1 node");
    expect(stdout).toContain("Not declared: 2 ACTIVE ports");
    await ctl("nodes remove two-rails --yes");
  });

  test("events stand with the latest last, of one node where asked", async () => {
    const all = (await ctl("events --limit 3")).stdout.trimEnd().split("\n");
    expect(all).toHaveLength(4);
    expect(all[3]).toContain("node removed");
    expect((await ctl("events --node gpu-01 --json")).stdout).not.toContain("gpu-02");
    expect((await ctl("events --limit 0")).exitCode).toBe(2);
  });
});

describe("ctl token and operator", () => {
  test("token create prints one line on stdout that can be pasted, and talks on stderr", async () => {
    const { stdout, stderr, exitCode } = await ctl("token create --ttl 90m --uses 3");
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^llmgw agent --server http:\/\/127\.0\.0\.1:\d+ --token llmgw-join-[0-9a-f]{40}\n$/);
    expect(stderr).toMatch(/^Paste this line on up to 3 nodes, as root, before .*\n.* own address: nodes elsewhere cannot reach it/);
    const { tokens } = JSON.parse((await ctl("token list --json")).stdout);
    expect(tokens[0]).toMatchObject({ uses_left: 3 });
    expect(Date.parse(tokens[0].expires_at) - Date.parse(tokens[0].created_at)).toBe(90 * 60_000);
    expect((await ctl(`token remove ${tokens[0].token_id}`)).exitCode).toBe(0);
    expect((await ctl(`token remove ${tokens[0].token_id}`)).exitCode).toBe(1);
  });

  test.each([
    ["--ttl 5", "a number without a unit may be seconds or days"],
    ["--ttl 400d", "a token counts for 1 s to 366 d"],
    ["--uses 0", "it takes 1 to 10000"],
  ])("token create %s is a mistake with its reason", async (flag, why) => {
    expect(await ctl(`token create ${flag}`)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(why) });
  });

  test("an operator's token is printed once and opens what its role says; the last admin stays", async () => {
    const { stdout } = await ctl("operator create prom --role viewer");
    using folder = temporaryFolder();
    const file = join(folder.path, "prom.token");
    writeFileSync(file, stdout);
    const asProm = (words: string) => runLlmgw(["ctl", ...words.split(" "), "--server", server.running.url, "--token-file", file]);
    expect((await asProm("nodes")).exitCode).toBe(0);
    expect(await asProm("token create")).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('"prom" may look and not change') });
    const { operators } = JSON.parse((await ctl("operator list --json")).stdout);
    const id = (name: string) => operators.find((one: { name: string }) => one.name === name).operator_id;
    expect((await ctl(`operator remove ${id("prom")} --yes`)).exitCode).toBe(0);
    expect(await asProm("nodes")).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(file) });
    expect(await ctl(`operator remove ${id("admin")} --yes`)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("is the last admin"),
    });
  });
});

describe("ctl doctor and backup", () => {
  test("doctor asks the agent, shows its report, and its exit code is doctor's", async () => {
    const { findings } = await findingsOf("thermal-power-brake");
    const answer = async () => {
      const { id } = await hot.next("ask");
      hot.send({ kind: "answer", id, result: { version: 1, findings } });
    };
    const [shown] = await Promise.all([ctl("doctor gpu-02"), answer()]);
    expect(shown).toMatchObject({ exitCode: 1, stdout: expect.stringContaining("gpu-thermal: card 0") });
    const [blocked] = await Promise.all([ctl("doctor gpu-02 --fail-on block --json"), answer()]);
    expect(blocked.exitCode).toBe(0);
    expect(JSON.parse(blocked.stdout).version).toBe(1);
    expect(await ctl("doctor nope")).toMatchObject({ exitCode: 1 });
  });

  test("backup writes a file for its owner only, and replaces none unless told to", async () => {
    using folder = temporaryFolder();
    const file = join(folder.path, "b.db");
    expect((await ctl(`backup ${file}`)).exitCode).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file).subarray(0, 15).toString()).toBe("SQLite format 3");
    expect(await ctl(`backup ${file}`)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("is there already") });
    expect((await ctl(`backup ${file} --force`)).exitCode).toBe(0);
    expect(await ctl(`backup ${folder.path}/none/b.db`)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("cannot be written"),
    });
  });
});

describe("--watch", () => {
  test("without a terminal prints a block when something changed, and ends with 0 when told to", async () => {
    const clock = createVirtualClock();
    const stop = new AbortController();
    const blocks: string[] = [];
    const watching = ctl("nodes --watch", { clock, signal: stop.signal, onStdout: (text) => blocks.push(text) });
    const looks = async (count: number) => {
      for (let at = 0; at < count; at++) {
        await until(
          () => clock.nextMs() !== undefined,
          () => "no look",
        );
        await clock.advance(2_000);
      }
      await until(
        () => clock.nextMs() !== undefined,
        () => "no look",
      );
    };
    await looks(3);
    expect(blocks).toHaveLength(1);
    await server.call("POST", "/nodes/gpu-01/cordon", {});
    await looks(2);
    expect(blocks).toHaveLength(2);
    expect(blocks[1]).toContain("cordoned");
    await server.call("POST", "/nodes/gpu-01/uncordon");
    stop.abort();
    expect((await watching).exitCode).toBe(0);
  });

  test("on a terminal redraws from its corner, and with --json prints a line for each change", async () => {
    const frames = async (words: string, tty: boolean): Promise<readonly string[]> => {
      const clock = createVirtualClock();
      const stop = new AbortController();
      const shown: string[] = [];
      const watching = ctl(words, { clock, tty, signal: stop.signal, onStdout: (text) => shown.push(text) });
      await until(
        () => clock.nextMs() !== undefined,
        () => "no look",
      );
      stop.abort();
      await watching;
      return shown;
    };
    const drawn = await frames("nodes --watch --no-color", true);
    expect(drawn.join("")).toStartWith("\u001b[2J\u001b[H");
    expect(drawn.join("")).toContain("every 2 s, Ctrl-C ends");
    const lines = await frames("status --watch --json", false);
    expect(lines.map((line) => JSON.parse(line).nodes.ready)).toEqual([2]);
  });

  test("takes a time between two looks that makes sense, and only with it", async () => {
    expect(await ctl("nodes --interval 5")).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("--interval goes with --watch") });
    expect((await ctl("nodes --watch --interval 0")).exitCode).toBe(2);
  });
});

describe("which server, and with which token", () => {
  const { url } = server.running;

  test("flags win over variables, those over ctl.yaml, that over a server of this machine", async () => {
    using home = temporaryFolder();
    const config = join(home.path, ".config/llmgw");
    mkdirSync(config, { recursive: true });
    const own = join(home.path, ".local/state/llmgw/server");
    mkdirSync(own, { recursive: true });
    const run = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
      runLlmgw(["ctl", "status", "--json", ...words], { env: { HOME: home.path, ...env } });
    const token = join(state, "admin.token");
    const dead = "http://127.0.0.1:9";
    writeFileSync(join(own, "server.json"), JSON.stringify({ version: 1, url: dead }));
    writeFileSync(join(own, "admin.token"), server.admin);
    expect(await run([])).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(`the server at ${dead} cannot be reached`) });
    writeFileSync(join(config, "ctl.yaml"), `server: ${url}\ntoken_file: ${token}\n`);
    expect((await run([])).exitCode).toBe(0);
    expect((await run([], { LLMGW_SERVER: dead, LLMGW_TOKEN_FILE: token })).exitCode).toBe(1);
    expect((await run(["--server", url, "--token-file", token], { LLMGW_SERVER: dead })).exitCode).toBe(0);
    expect((await run(["--state", state], { LLMGW_SERVER: dead })).exitCode).toBe(0);
  });

  test("a token goes to the server that it was named with and to no other", async () => {
    using home = temporaryFolder();
    mkdirSync(join(home.path, ".config/llmgw"), { recursive: true });
    writeFileSync(join(home.path, ".config/llmgw/ctl.yaml"), `server: ${url}\ntoken_file: ${join(state, "admin.token")}\n`);
    const heard: string[] = [];
    const other = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: (request) => {
        heard.push(request.headers.get("authorization") ?? "none");
        return new Response("");
      },
    });
    const { stderr } = await runLlmgw(["ctl", "nodes", "--server", other.url.origin], { env: { HOME: home.path } });
    expect(stderr).toContain(`there is no token for ${other.url.origin}`);
    expect(heard).toEqual([]);
    await other.stop(true);
  });

  test.each([
    ["nothing at all", [], "no server is named"],
    ["a server that is not encrypted", ["--server", "http://gw.example:8400"], "is not encrypted"],
    ["a URL that is none", ["--server", "gw.example"], "is no server's URL"],
    ["a folder in which no server ran", ["--state", "/nowhere"], "is no state folder of a server"],
    ["two servers", ["--state", "/nowhere", "--server", "https://x"], "contradict each other"],
    ["a fingerprint that is none", ["--server", "https://x", "--fingerprint", "abc"], "--fingerprint abc is none"],
  ])("%s is a mistake with its reason", async (_, words, what) => {
    using home = temporaryFolder();
    const { exitCode, stderr } = await runLlmgw(["ctl", "nodes", ...words], { env: { HOME: home.path } });
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(what)]);
  });

  test("a token file that is of something else is named, and never shown", async () => {
    using folder = temporaryFolder();
    const secret = newSecret("join", random);
    const file = join(folder.path, "t");
    writeFileSync(file, secret);
    const { exitCode, stderr } = await runLlmgw(["ctl", "nodes", "--server", url, "--token-file", file]);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining("it is a join token")]);
    expect(stderr).not.toContain(secret);
    chmodSync(file, 0o600);
  });

  test("what answers and is no server of ours is told from one that is away", async () => {
    using folder = temporaryFolder();
    const file = join(folder.path, "t");
    writeFileSync(file, newSecret("operator", random));
    const other = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("<html>") });
    const run = (server: string) => runLlmgw(["ctl", "nodes", "--server", server, "--token-file", file]);
    expect(await run(other.url.origin)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("is not understood") });
    await other.stop(true);
    expect(await run(other.url.origin)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("cannot be reached") });
  });
});

test("ctl alone, and its groups, show what there is", async () => {
  for (const words of [["ctl"], ["ctl", "token"], ["ctl", "operator"]]) {
    expect(await runLlmgw(words)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("Commands:") });
  }
});
