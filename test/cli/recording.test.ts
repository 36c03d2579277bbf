/** `llmgw inventory --record`: what is written replays as the same machine, and by default names nobody. */
import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { createHostRunner } from "../../src/platform/host-runner.ts";
import { machineNames, openMachine } from "../../src/platform/machine.ts";
import { runLlmgw } from "../support/cli.ts";
import { layOut, temporaryFolder } from "../support/folders.ts";
import { IDENTITIES, SMALL_NODE } from "../support/small-node.ts";

const MACHINES = await machineNames();
const USER = { USER: IDENTITIES.user };

/** Every file's, folder's and link's path below a folder, with what it holds. */
function everything(folder: string): readonly string[] {
  const below = (at: string): readonly string[] =>
    readdirSync(join(folder, at), { withFileTypes: true }).flatMap((entry) => {
      const path = join(at, entry.name);
      if (entry.isDirectory()) return [`${path}/`, ...below(path)];
      return [`${path}: ${entry.isSymbolicLink() ? readlinkSync(join(folder, path)) : readFileSync(join(folder, path), "utf8")}`];
    });
  return below("");
}

async function inventoryJson(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Record<string, unknown>> {
  const { exitCode, stdout, stderr } = await runLlmgw(["inventory", "--json", ...words], { env });
  expect([exitCode, exitCode === 0 ? "" : stderr]).toEqual([0, ""]);
  return JSON.parse(stdout);
}

/** What a recording leaves out on purpose. */
function withoutWeights(inventory: Record<string, unknown>): Record<string, unknown> {
  return { ...inventory, weights: [] };
}

describe("a raw recording", () => {
  test("replays as the same machine, model folders empty, their disks kept", async () => {
    using node = temporaryFolder();
    using out = temporaryFolder();
    layOut(node.path, SMALL_NODE);
    const recording = join(out.path, "new", "folder");
    const first = await inventoryJson(["--machine", node.path, "--record", recording, "--record-raw"], USER);
    expect(first).toMatchObject({
      hostname: IDENTITIES.alias,
      gpus: [{ uuid: `GPU-${IDENTITIES.cardUuid}`, nearest_hcas: expect.anything() }],
      hcas: [{ node_guid: IDENTITIES.nodeGuid, ports: [{ fabric: "rail0" }] }],
      weights: [{ name: "tiny" }],
      storage: [{ total_mb: 1024, free_mb: 512 }],
    });
    expect(await inventoryJson(["--machine", recording])).toEqual(withoutWeights(first));
    expect(everything(recording).join("\n")).not.toContain("SECRET-OF-THE-MODEL");
  });

  for (const name of MACHINES) {
    test(`of ${name} replays as ${name}`, async () => {
      using out = temporaryFolder();
      const recording = join(out.path, "recording");
      const first = await inventoryJson(["--machine", name, "--record", recording, "--record-raw"]);
      expect(first).toEqual(await inventoryJson(["--machine", name]));
      expect(await inventoryJson(["--machine", recording])).toEqual(withoutWeights(first));
    });
  }

  test("of a recording is the same recording", async () => {
    using node = temporaryFolder();
    using out = temporaryFolder();
    layOut(node.path, SMALL_NODE);
    const [one, two] = [join(out.path, "one"), join(out.path, "two")];
    await inventoryJson(["--machine", node.path, "--record", one, "--record-raw"]);
    await inventoryJson(["--machine", one, "--record", two, "--record-raw"]);
    expect([...everything(two)].sort()).toEqual([...everything(one)].sort());
  });

  test("says of each model folder whether it was there", async () => {
    using node = temporaryFolder();
    using out = temporaryFolder();
    layOut(node.path, SMALL_NODE);
    await inventoryJson(["--machine", node.path, "--record", join(out.path, "r"), "--record-raw"]);
    const machine = parse(readFileSync(join(out.path, "r/machine.yaml"), "utf8"));
    expect(machine.absent).toContain(`/data/${IDENTITIES.hostname}`);
    expect(machine.absent).not.toContain(`/home/${IDENTITIES.user}/models`);
    expect(readdirSync(join(out.path, "r/root/home", IDENTITIES.user, "models"))).toEqual([]);
    expect(machine.disks).toEqual({ [`/home/${IDENTITIES.user}/models/`]: { total_bytes: 1073741824, free_bytes: 536870912 } });
  });

  test("of a host recorded by a user who is not root, with folders of their own, still replays", async () => {
    using host = temporaryFolder();
    using out = temporaryFolder();
    const models = join(host.path, "models");
    mkdirSync(models);
    const runner = createHostRunner({ env: { PATH: host.path, HOME: join(host.path, "home"), LLMGW_RUNTIME_DIR: host.path } });
    const recording = join(out.path, "recording");
    const words = ["inventory", "--json", "--no-gpu", "--model-dir", models, "--record", recording];
    expect((await runLlmgw(words, { runner })).exitCode).toBe(0);
    const again = await runLlmgw(["inventory", "--json", "--no-gpu", "--machine", recording]);
    expect([again.exitCode, again.stderr]).toEqual([0, expect.stringContaining("recorded machine")]);
  });

  test("of a host recorded by a user who is not root, whose usual folders are their own, replays with their disks", async () => {
    using host = temporaryFolder();
    using out = temporaryFolder();
    const home = join(host.path, "home", IDENTITIES.user);
    mkdirSync(join(home, ".cache/huggingface/hub"), { recursive: true });
    const runner = createHostRunner({ env: { PATH: host.path, HOME: home, LLMGW_RUNTIME_DIR: host.path } });
    const recording = join(out.path, "recording");
    const first = await runLlmgw(["inventory", "--json", "--no-gpu", "--record", recording], { runner });
    const again = await runLlmgw(["inventory", "--json", "--no-gpu", "--machine", recording]);
    expect(JSON.parse(first.stdout).storage).toHaveLength(1);
    expect(JSON.parse(again.stdout).storage).toHaveLength(1);
  });
});

describe("a masked recording", () => {
  test("holds no identity anywhere, file names included, and replays as the same machine but for those", async () => {
    using node = temporaryFolder();
    using out = temporaryFolder();
    layOut(node.path, SMALL_NODE);
    const recording = join(out.path, "recording");
    const first = await inventoryJson(["--machine", node.path, "--record", recording], USER);
    const whole = everything(recording).join("\n");
    for (const [what, identity] of Object.entries({ ...IDENTITIES, address: "10.1.2.3" })) {
      expect([what, whole.toLowerCase().includes(identity.toLowerCase())]).toEqual([what, false]);
    }
    const replaced = JSON.parse(
      JSON.stringify(withoutWeights(first))
        .replaceAll(IDENTITIES.cardUuid, "00000000-0000-4000-8000-000000000001")
        .replaceAll(IDENTITIES.nodeGuid, "GUID")
        .replaceAll(IDENTITIES.alias, "HOST")
        .replaceAll(`/home/${IDENTITIES.otherUser}/`, "/home/USER/")
        .replaceAll(IDENTITIES.user, "USER"),
    );
    const again = JSON.parse(
      JSON.stringify(await inventoryJson(["--machine", recording]))
        .replaceAll(/0200(:[0-9a-f]{4}){3}/g, "GUID")
        .replaceAll(/host-\d/g, "HOST")
        .replaceAll(/user-\d/g, "USER"),
    );
    expect(again).toEqual(replaced);
  });

  test("by a user whose name stands in every path of the driver still replays", async () => {
    using node = temporaryFolder();
    using out = temporaryFolder();
    layOut(node.path, SMALL_NODE);
    const recording = join(out.path, "recording");
    await inventoryJson(["--machine", node.path, "--record", recording], { USER: "nvidia", LOGNAME: "gpu" });
    expect(await inventoryJson(["--machine", recording])).toMatchObject({ source: "nvidia-smi", driver_version: "580.95.05" });
  });

  test("tells where it went, and that it is masked", async () => {
    using node = temporaryFolder();
    using out = temporaryFolder();
    layOut(node.path, SMALL_NODE);
    const recording = join(out.path, "recording");
    const { stderr } = await runLlmgw(["inventory", "--machine", node.path, "--record", recording]);
    expect(stderr).toMatch(/ info recording written folder=\S+ commands=4 files=\d+\n/);
    expect(readFileSync(join(recording, "machine.yaml"), "utf8")).toMatch(
      /^# Written by llmgw[\s\S]*# replaced, the same one by the same one/,
    );
  });
});

describe("a recording is refused", () => {
  async function refused(words: readonly string[]): Promise<string> {
    using node = temporaryFolder();
    layOut(node.path, SMALL_NODE);
    const { exitCode, stdout, stderr } = await runLlmgw(["inventory", "--machine", node.path, ...words]);
    expect([exitCode, stdout]).toEqual([2, ""]);
    return stderr;
  }

  test("into a folder with content, which stays as it is", async () => {
    using out = temporaryFolder();
    writeFileSync(join(out.path, "mine"), "x");
    expect(await refused(["--record", out.path])).toContain(`llmgw: ${out.path} is not empty\n`);
    expect(readdirSync(out.path)).toEqual(["mine"]);
  });

  test("into a file, or below one", async () => {
    using out = temporaryFolder();
    const file = join(out.path, "mine");
    writeFileSync(file, "x");
    for (const at of [file, join(file, "below")]) {
      expect(await refused(["--record", at])).toContain(`llmgw: the recording cannot be written to ${at}\n  why: `);
    }
    expect(readFileSync(file, "utf8")).toBe("x");
  });

  test("raw without a place to write it, with the usage", async () => {
    const stderr = await refused(["--record-raw"]);
    expect(stderr).toContain("llmgw: --record-raw goes with --record\n");
    expect(stderr).toContain("fix: add --record DIR\n");
    expect(stderr).toContain("Usage: llmgw inventory");
  });
});

describe("a recording that lacks what is asked for is loud", () => {
  test("cards on a recording made without them", async () => {
    using node = temporaryFolder();
    using out = temporaryFolder();
    layOut(node.path, SMALL_NODE);
    const recording = join(out.path, "recording");
    await inventoryJson(["--machine", node.path, "--no-gpu", "--record", recording]);
    expect(existsSync(join(recording, "nvidia-smi-L.txt"))).toBe(false);
    expect((await runLlmgw(["inventory", "--no-gpu", "--machine", recording])).exitCode).toBe(0);
    const { exitCode, stdout, stderr } = await runLlmgw(["inventory", "--machine", recording]);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/llmgw: the recorded machine recording does not hold the command "nvidia-(smi|imex-ctl) .*"\n {2}why: /);
    expect(stderr).toContain("llmgw inventory --record DIR");
  });

  test("adapters on a recording made of cards only", async () => {
    using node = temporaryFolder();
    using out = temporaryFolder();
    layOut(node.path, SMALL_NODE);
    const recording = join(out.path, "recording");
    await inventoryJson(["--machine", node.path, "--only-gpus", "--record", recording]);
    expect((await runLlmgw(["inventory", "--only-gpus", "--machine", recording])).exitCode).toBe(0);
    expect((await runLlmgw(["inventory", "--machine", recording])).exitCode).toBe(2);
  });
});

test("an empty machine without unrecorded: absent is loud at its first question", async () => {
  using folder = temporaryFolder();
  layOut(folder.path, { "machine.yaml": "about: nothing\nsource: composed\n" });
  expect((await openMachine(folder.path)).label).toContain("recorded machine");
  const { exitCode, stderr } = await runLlmgw(["inventory", "--machine", folder.path]);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining("does not hold the path /etc/llmgw/agent.yaml")]);
});
