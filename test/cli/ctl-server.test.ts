/** What `ctl` makes of a server that says no, is away, or cannot be trusted: against a stand-in that answers as told. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { selfSigned } from "../../src/lib/self-signed.ts";
import type { Nodes, Status } from "../../src/protocol/api.ts";
import { newSecret } from "../../src/protocol/secrets.ts";
import { explanation, type Outcome, type RunOptions, runLlmgw } from "../support/cli.ts";
import { layOut, temporaryFolder } from "../support/folders.ts";
import { until } from "../support/processes.ts";
import { random } from "../support/server.ts";
import { createVirtualClock, type VirtualClock } from "../support/virtual-clock.ts";

interface StandIn extends AsyncDisposable {
  readonly url: string;
  /** What each request asked for, and how it proved itself. */
  readonly asked: { readonly what: string; readonly secret: string; readonly body: string }[];
  readonly secret: string;
  readonly folder: string;
  ctl(words: readonly string[], options?: RunOptions): Promise<Outcome>;
}

type Answers = (what: string) => Response;

async function standIn(answers: Answers, tls?: { readonly cert: string; readonly key: string }): Promise<StandIn> {
  const folder = temporaryFolder();
  const asked: { what: string; secret: string; body: string }[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    ...(tls === undefined ? {} : { tls }),
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url);
      const what = `${request.method} ${pathname.replace("/api/v1", "")}${search}`;
      asked.push({ what, secret: request.headers.get("authorization") ?? "none", body: await request.text() });
      return answers(what);
    },
  });
  const secret = newSecret("operator", random);
  const token = join(folder.path, "op.token");
  writeFileSync(token, `${secret}\n`);
  return {
    url: server.url.origin,
    asked,
    secret,
    folder: folder.path,
    ctl: (words, options) => runLlmgw(["ctl", ...words, "--server", server.url.origin, "--token-file", token], options),
    [Symbol.asyncDispose]: async () => {
      await server.stop(true);
      folder[Symbol.dispose]();
    },
  };
}

const NODES: Nodes = {
  now: "2026-11-30T12:05:00.000Z",
  nodes: [
    {
      node_id: "gpu-01",
      state: "ready",
      connected: true,
      cordoned: false,
      draining: false,
      joined_at: "2026-11-30T10:00:00.000Z",
      last_seen_at: "2026-11-30T12:04:57.000Z",
      agent_version: "0.1.0",
      summary: {
        source: "nvml",
        devices: [
          { class: "a100-80g", count: 2, healthy: 2 },
          { class: "a100-80g-mig-1g.10gb", count: 7, healthy: 7 },
        ],
        unusable_cards: 0,
      },
      problems: { block: 0, degrade: 0, advise: 3, unknown: 0 },
    },
    {
      node_id: "gpu-02",
      state: "lost",
      connected: false,
      cordoned: false,
      draining: false,
      joined_at: "2026-11-30T10:00:00.000Z",
      last_seen_at: "2026-11-30T11:53:00.000Z",
      summary: { source: "unavailable", devices: [], unusable_cards: 1 },
      problems: { block: 1, degrade: 2, advise: 0, unknown: 1 },
    },
    { node_id: "new", state: "ready", connected: false, cordoned: false, draining: false, joined_at: "2026-11-30T12:04:00.000Z" },
  ],
};

const json = (value: unknown): Response => Response.json(value);
const no = (status: number): Response => Response.json({ error: { what: "a", why: "b", fix: "c" } }, { status });

describe("text", () => {
  test("of nodes is a table; what is not known is -, what is not there is none, and ages are by the server's clock", async () => {
    await using server = await standIn(() => json(NODES));
    const { stdout, stderr, exitCode } = await server.ctl(["nodes"]);
    expect([exitCode, stderr]).toEqual([0, ""]);
    expect(stdout).toBe(
      [
        "NODE    STATE  DEVICES                                 HEALTH                               SEEN  VERSION",
        "gpu-01  ready  2 × a100-80g, 7 × a100-80g-mig-1g.10gb  ok                                    3 s  0.1.0",
        "gpu-02  lost   -                                       1 blocking, 2 degraded, 1 unknown  12 min  -",
        "new     ready  -                                       -                                       -  -",
        "",
      ].join("\n"),
    );
    expect(server.asked).toEqual([{ what: "GET /nodes", secret: `Bearer ${server.secret}`, body: "" }]);
  });

  test("of fabrics names what contradicts a declaration", async () => {
    const port = { adapter: "mlx5_0", port: 1, state: "ACTIVE", rate_gbps: 400, link_layer: "InfiniBand", lid: 4, sm_lid: 1 };
    const fabric = {
      fabric: "rail0",
      ports: [
        { node_id: "gpu-01", ...port, gid_prefix: "fe80:0000:0000:0000" },
        { node_id: "gpu-02", ...port, state: "DOWN", rate_gbps: 2.5 },
      ],
      contradictions: ["LID 4 is given to both"],
    };
    await using server = await standIn(() => json({ fabrics: [fabric], undeclared: [] }));
    expect((await server.ctl(["fabrics"])).stdout).toBe(
      [
        "rail0: 2 ports of 2 nodes",
        "  NODE    HCA     PORT  STATE       RATE  LINK        GID PREFIX           LID  SM LID",
        "  gpu-01  mlx5_0     1  ACTIVE  400 Gb/s  InfiniBand  fe80:0000:0000:0000    4       1",
        "  gpu-02  mlx5_0     1  DOWN           -  InfiniBand  -                      4       1",
        "  contradicted: LID 4 is given to both",
        "",
      ].join("\n"),
    );
  });

  test("of the status says what nobody may overlook", async () => {
    const status: Status = {
      server: {
        version: "0.1.0",
        cluster_id: "c1",
        started_at: "2026-11-30T09:00:00.000Z",
        now: "2026-11-30T12:00:00.000Z",
        store: "sqlite /s/store.db",
        open_access: true,
      },
      nodes: { ready: 2, late: 0, lost: 1, cordoned: 0, draining: 0 },
      devices: [{ class: "h100-80g", count: 16, healthy: 15 }],
      problems: { block: 1, degrade: 0, advise: 0, unknown: 0 },
      fabrics: [{ fabric: "rail0", nodes: 2, contradictions: 1 }],
      attention: ["1 node is lost: gpu-02 (llmgw ctl nodes show gpu-02)"],
    };
    await using server = await standIn(() => json(status));
    expect((await server.ctl(["status"])).stdout).toBe(
      [
        "cluster   c1",
        `server    0.1.0 at ${server.url}, up 3 h`,
        "store     sqlite /s/store.db",
        "access    open: no token is asked for",
        "nodes     3: 2 ready, 1 lost",
        "devices   16 × h100-80g (1 not healthy)",
        "problems  1 blocking",
        "fabrics   rail0 (2 nodes, 1 contradiction)",
        "",
        "Look at",
        "  1 node is lost: gpu-02 (llmgw ctl nodes show gpu-02)",
        "",
      ].join("\n"),
    );
  });

  test("of a join line is whole words for a shell, whatever the address", async () => {
    const token = {
      token_id: "t",
      created_at: "2026-11-30T12:00:00Z",
      expires_at: "2026-11-30T13:00:00Z",
      uses_left: 1,
      created_by: "admin",
    };
    const made = { token, secret: "llmgw-join-x", server: "https://[2001:db8::7]:8400", fingerprint: "sha256:ab" };
    await using server = await standIn(() => json(made));
    const { stdout, stderr } = await server.ctl(["token", "create"]);
    expect(stdout).toBe("llmgw agent --server 'https://[2001:db8::7]:8400' --token llmgw-join-x --fingerprint sha256:ab\n");
    expect(stderr).toBe("Paste this line on a node, as root, before 2026-11-30 13:00:00Z. It is shown once.\n");
    const asData = await server.ctl(["token", "create", "--ttl", "1h30m", "--json"]);
    expect([JSON.parse(asData.stdout), asData.stderr]).toEqual([made, ""]);
    expect(server.asked.map((one) => one.body)).toEqual(["{}", '{"ttl_s":5400}']);
  });

  test("that is no name or id of anything is never part of a path", async () => {
    await using server = await standIn(() => json({ done: true }));
    for (const words of [
      ["nodes", "remove", "..", "--yes"],
      ["nodes", "cordon", "a/b"],
      ["token", "remove", ".."],
      ["doctor", "a?b"],
    ]) {
      expect(await server.ctl(words)).toMatchObject({ exitCode: 2, stdout: "" });
    }
    const secret = newSecret("join", random);
    const { exitCode, stderr } = await server.ctl(["token", "remove", secret]);
    expect([exitCode, stderr.includes(secret)]).toEqual([2, false]);
    expect(server.asked).toEqual([]);
  });
});

describe("a no", () => {
  test.each([
    [400, 2],
    [403, 2],
    [404, 1],
    [409, 1],
    [429, 1],
    [503, 1],
  ])("of status %i is the server's own words, and exit code %i", async (status, exitCode) => {
    await using server = await standIn(() => no(status));
    expect(await server.ctl(["nodes"])).toEqual({ exitCode, stdout: "", stderr: explanation("a", "b", "c") });
  });

  test("to the token names the file that it came from", async () => {
    await using server = await standIn(() => no(401));
    const { exitCode, stderr } = await server.ctl(["nodes"]);
    expect([exitCode, stderr]).toEqual([2, explanation("a", `b (the token comes from ${server.folder}/op.token)`, "c")]);
  });

  test("shows what would move the cursor as what it is", async () => {
    await using server = await standIn(() => Response.json({ error: { what: "\u001b[2J", why: "b", fix: "c" } }, { status: 404 }));
    expect((await server.ctl(["nodes"])).stderr).toBe(explanation("\\u{1b}[2J", "b", "c"));
  });

  test("of a proxy that sends its sign-in page gets no second request", async () => {
    await using server = await standIn(() => new Response("", { status: 302, headers: { location: "/login" } }));
    const { exitCode, stderr } = await server.ctl(["nodes"]);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("HTTP status 302")]);
    expect(server.asked).toHaveLength(1);
  });

  test("is what a backup gets that is no database: nothing is written", async () => {
    await using server = await standIn(() => new Response("<html>"));
    const file = join(server.folder, "b.db");
    const { exitCode, stderr } = await server.ctl(["backup", file]);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("is no backup")]);
    expect(await Bun.file(file).exists()).toBe(false);
  });
});

describe("a certificate that nobody vouches for", () => {
  const made = selfSigned({
    names: ["127.0.0.1"],
    fromMs: Date.now() - 86_400_000,
    untilMs: Date.now() + 86_400_000,
    serial: random(16),
  });

  test("is refused unless it is pinned or given, and the way to do so is told", async () => {
    const { cert, key, fingerprint } = await made;
    await using server = await standIn(() => json(NODES), { cert, key });
    const bare = await server.ctl(["nodes"]);
    expect(bare).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("trust it with --fingerprint sha256:…") });
    expect(await server.ctl(["nodes", "--fingerprint", fingerprint])).toMatchObject({ exitCode: 0, stderr: "" });
    const file = join(server.folder, "ca.pem");
    writeFileSync(file, cert);
    expect(await server.ctl(["nodes", "--ca", file])).toMatchObject({ exitCode: 0, stderr: "" });
  });

  test("that is another than the pinned one gets no token", async () => {
    const { cert, key } = await made;
    await using server = await standIn(() => json(NODES), { cert, key });
    const { exitCode, stderr } = await server.ctl(["nodes", "--fingerprint", `sha256:${"0".repeat(64)}`]);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining("shows another certificate than the one that was pinned")]);
    expect(server.asked).toEqual([]);
  });

  test("is pinned by ctl.yaml too, whose paths may begin at home", async () => {
    const { cert, key, fingerprint } = await made;
    await using server = await standIn(() => json(NODES), { cert, key });
    const config = `server: ${server.url}/\ntoken_file: ~/op.token\ntls:\n  fingerprint: ${fingerprint}\n`;
    layOut(server.folder, { "elsewhere/llmgw/ctl.yaml": config });
    const env = { HOME: server.folder, XDG_CONFIG_HOME: join(server.folder, "elsewhere") };
    expect(await runLlmgw(["ctl", "nodes"], { env })).toMatchObject({ exitCode: 0, stderr: "" });
  });
});

describe("files that do not fit", () => {
  test("a mistyped key of ctl.yaml is named with its line, unless flags say everything", async () => {
    await using server = await standIn(() => json(NODES));
    layOut(server.folder, { ".config/llmgw/ctl.yaml": "server: https://gw.example:8400\ntokenfile: /t\n" });
    const env = { HOME: server.folder };
    const { exitCode, stderr } = await runLlmgw(["ctl", "nodes"], { env });
    expect([exitCode, stderr]).toEqual([2, expect.stringMatching(/ctl\.yaml[\s\S]*2[\s\S]*tokenfile/)]);
    expect(await server.ctl(["nodes"], { env })).toMatchObject({ exitCode: 0 });
  });

  test("a state folder that may not be read is told from one in which no server ran", async () => {
    using home = temporaryFolder();
    // A folder in the file's place: even root cannot read it.
    mkdirSync(join(home.path, ".local/state/llmgw/server/server.json"), { recursive: true });
    const { exitCode, stderr } = await runLlmgw(["ctl", "nodes"], { env: { HOME: home.path } });
    expect([exitCode, stderr]).toEqual([
      2,
      expect.stringContaining(`the state folder ${home.path}/.local/state/llmgw/server may not be read`),
    ]);
  });

  test("a server.json that is damaged is told how it comes back", async () => {
    using home = temporaryFolder();
    layOut(home.path, { "server.json": "{" });
    expect(await runLlmgw(["ctl", "nodes", "--state", home.path])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("start the server again: it writes the file anew"),
    });
  });

  test("a URL with a password in it is refused without repeating it", async () => {
    const { exitCode, stderr } = await runLlmgw(["ctl", "nodes", "--server", "https://me:hunter2@gw.example"]);
    expect([exitCode, stderr.includes("hunter2")]).toEqual([2, false]);
  });
});

describe("--watch", () => {
  /** Runs the command until it pauses, then as often as told; between two looks `then` may change what is answered. */
  async function watching(
    server: StandIn,
    options: RunOptions,
    steps: readonly ((clock: VirtualClock) => void)[],
    words: readonly string[] = ["nodes", "--watch"],
  ): Promise<Outcome> {
    const clock = createVirtualClock();
    const stop = new AbortController();
    const pausing = () =>
      until(
        () => clock.nextMs() !== undefined,
        () => "it does not pause",
      );
    const outcome = server.ctl(words, { ...options, clock, signal: stop.signal });
    await pausing();
    for (const step of steps) {
      step(clock);
      await clock.advance(2_000);
      await Promise.race([pausing(), outcome]);
    }
    stop.abort();
    return outcome;
  }

  test("goes on while the server is away, says so once, and says when it is back", async () => {
    let answer: () => Response = () => json(NODES);
    await using server = await standIn(() => answer());
    const away = () => {
      answer = () => no(503);
    };
    const back = () => {
      answer = () => json(NODES);
    };
    const { exitCode, stdout, stderr } = await watching(server, {}, [away, away, back]);
    expect(exitCode).toBe(0);
    expect(stdout.match(/^NODE/gm)).toHaveLength(1);
    expect(stderr).toBe("llmgw: a: b; trying again\nllmgw: the server answers again\n");
  });

  test("ends when the token does not count any more", async () => {
    let answer: () => Response = () => json(NODES);
    await using server = await standIn(() => answer());
    const outcome = await watching(server, {}, [
      () => {
        answer = () => no(401);
      },
    ]);
    expect(outcome).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("llmgw: a\n") });
  });

  test("a server that is away from the start is a mistake", async () => {
    await using server = await standIn(() => no(503));
    expect(await server.ctl(["nodes", "--watch"])).toMatchObject({ exitCode: 1, stdout: "" });
  });

  test("an age alone is no news", async () => {
    let seen = 0;
    await using server = await standIn(() => {
      const [first] = NODES.nodes;
      return json({ nodes: [{ ...first, last_seen_at: new Date(Date.parse("2026-11-30T12:00:00Z") + 1_000 * seen++).toISOString() }] });
    });
    const { stdout } = await watching(server, {}, [() => undefined, () => undefined, () => undefined]);
    expect(stdout.match(/^NODE/gm)).toHaveLength(1);
    expect(server.asked).toHaveLength(4);
  });

  test("on a terminal a frame is never higher than the screen, and keeps what was seen while the server is away", async () => {
    const [first] = NODES.nodes;
    let answer: () => Response = () => json({ nodes: Array.from({ length: 40 }, (_, at) => ({ ...first, node_id: `n${at}` })) });
    await using server = await standIn(() => answer());
    const { stdout } = await watching(server, { tty: true }, [
      () => {
        answer = () => no(503);
      },
    ]);
    const frames = stdout.split("\u001b[H").slice(1);
    expect(frames).toHaveLength(2);
    for (const frame of frames) {
      // Lines wider than 80 columns take two rows; the last row is the cursor's.
      const lines = Bun.stripANSI(frame).split("\n").slice(0, -1);
      expect(lines.reduce((rows, line) => rows + Math.max(1, Math.ceil(line.length / 80)), 0)).toBeLessThan(24);
      expect(lines.at(-1)).toMatch(/^… \d+ more lines: see them without --watch$/);
    }
    expect(frames[1]).toContain("a: b; trying again");
    expect(frames[1]).toContain("n0");
  });
});
