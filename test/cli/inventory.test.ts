/** `llmgw inventory` on small machines: what its flags and agent.yaml do. */
import { describe, expect, test } from "bun:test";
import { AGENT_CONFIG_PATH } from "../../src/domain/config-paths.ts";
import { runLlmgw } from "../support/cli.ts";
import { layOut, temporaryFolder } from "../support/folders.ts";
import { SMALL_NODE } from "../support/small-node.ts";

type Files = Readonly<Record<string, string | { readonly link: string }>>;

const BARE: Files = { "machine.yaml": "about: nothing\nsource: composed\nunrecorded: absent\n" };
const RECORDED = /^llmgw: this is the recorded machine \S+, not this host\n/;

/** Runs `llmgw inventory WORDS` on a machine made of these files. `says` is stderr after the line that names the machine. */
async function onMachine(files: Files, words: readonly string[], options: { readonly tty?: boolean } = {}) {
  using folder = temporaryFolder();
  layOut(folder.path, files);
  const outcome = await runLlmgw(["inventory", "--machine", folder.path, ...words], options);
  expect(outcome.stderr).toMatch(RECORDED);
  return { ...outcome, says: outcome.stderr.replace(RECORDED, "") };
}

async function dataOf(files: Files, words: readonly string[] = []): Promise<Record<string, unknown>> {
  const { exitCode, stdout, says } = await onMachine(files, ["--json", ...words]);
  expect([exitCode, says]).toEqual([0, ""]);
  return JSON.parse(stdout);
}

function withConfig(agentYaml: string): Files {
  return { ...SMALL_NODE, [`root${AGENT_CONFIG_PATH}`]: agentYaml };
}

test("a machine with nothing at all is a report with 0", async () => {
  const { exitCode, stdout, says } = await onMachine(BARE, []);
  expect([exitCode, says]).toEqual([0, ""]);
  expect(stdout).toContain("GPUs (0, via none)");
  expect(stdout).toContain("none: this node cannot host multi-node replicas");
  expect(await dataOf(BARE)).toMatchObject({ source: "none", gpus: [], hcas: [], weights: [], storage: [], warnings: [] });
});

test("--no-gpu looks for no card and says so, instead of saying that there is none", async () => {
  const { stdout } = await onMachine(SMALL_NODE, ["--no-gpu"]);
  expect(stdout).toContain("GPUs: not looked for (--no-gpu)\n");
  expect(stdout).toContain("InfiniBand adapters (1)");
  expect(await dataOf(SMALL_NODE, ["--no-gpu"])).toMatchObject({ gpus: [], hcas: [{ name: "mlx5_0" }], weights: [{ name: "tiny" }] });
});

test("--only-gpus looks for nothing else, and shows nothing else", async () => {
  const { stdout } = await onMachine(SMALL_NODE, ["--only-gpus"]);
  expect(stdout).toContain("GPUs (1, via nvidia-smi)");
  expect(stdout).not.toMatch(/InfiniBand|Weights/);
  expect(await dataOf(SMALL_NODE, ["--only-gpus"])).toMatchObject({ gpus: [{ index: 0 }], hcas: [], weights: [], storage: [] });
});

test("--no-gpu and --only-gpus contradict each other", async () => {
  using folder = temporaryFolder();
  layOut(folder.path, BARE);
  const { exitCode, stdout, stderr } = await runLlmgw(["inventory", "--machine", folder.path, "--no-gpu", "--only-gpus"]);
  expect([exitCode, stdout]).toEqual([2, ""]);
  expect(stderr).toStartWith("llmgw: --no-gpu and --only-gpus contradict each other\n  why: together they leave nothing to look for\n");
  expect(stderr).toContain("Usage: llmgw inventory");
});

test("llmgw agent inventory is the same", async () => {
  using folder = temporaryFolder();
  layOut(folder.path, SMALL_NODE);
  const words = ["inventory", "--machine", folder.path];
  expect(await runLlmgw(["agent", ...words])).toEqual(await runLlmgw(words));
});

test("colour is in the table on a terminal only, and never in the data", async () => {
  expect((await onMachine(SMALL_NODE, [], { tty: true })).stdout).toContain("\u001b[32mok\u001b[39m");
  expect((await onMachine(SMALL_NODE, [])).stdout).not.toContain("\u001b");
  expect((await onMachine(SMALL_NODE, ["--json"], { tty: true })).stdout).not.toContain("\u001b");
});

describe("a place that somebody named must be there", () => {
  for (const [fact, words, what] of [
    ["a folder of adapters that is not there", ["--ib-root", "/nowhere"], "--ib-root /nowhere cannot be used"],
    ["a file in place of the folder of adapters", ["--ib-root", "/proc/meminfo"], "--ib-root /proc/meminfo cannot be used"],
    ["a model folder that is not there", ["--model-dir", "/nowhere"], "--model-dir /nowhere cannot be used"],
    ["a second model folder that is not there", ["--model-dir", "/etc", "--model-dir", "/nowhere"], "--model-dir /nowhere cannot be used"],
  ] as const) {
    test(fact, async () => {
      const { exitCode, stdout, says } = await onMachine(SMALL_NODE, words);
      expect([exitCode, stdout]).toEqual([2, ""]);
      expect(says).toStartWith(`llmgw: ${what}\n  why: `);
      expect(says).toMatch(/\n {2}fix: .+\n$/);
    });
  }
});

test("model folders named by flag are looked through instead of all others, in the order given", async () => {
  const files = { ...SMALL_NODE, "root/a/x/model.safetensors": "?", "root/a/x/config.json": "{}", "root/b/note": "" };
  const data = await dataOf(files, ["--model-dir", "/b", "--model-dir=/a"]);
  expect(data).toMatchObject({ weights: [{ name: "x" }], storage: [{ path: "/b" }, { path: "/a" }] });
});

test("a model folder that may not be read is a warning, and the rest is reported", async () => {
  const files = {
    ...SMALL_NODE,
    "machine.yaml": `${SMALL_NODE["machine.yaml"]}unreadable: [/closed]\n`,
    "root/closed/x": "",
  };
  const data = await dataOf(files, ["--model-dir", "/closed"]);
  expect(data).toMatchObject({ gpus: [{ index: 0 }], hcas: [{ name: "mlx5_0" }], weights: [], storage: [] });
  expect(data.warnings).toEqual(expect.arrayContaining([expect.stringContaining("/closed")]));
});

describe("agent.yaml", () => {
  test("names the node and its fabrics", async () => {
    expect(await dataOf(SMALL_NODE)).toMatchObject({ hostname: "rack7-slot3", hcas: [{ ports: [{ fabric: "rail0" }] }], warnings: [] });
  });

  test("with keys that nobody knows is used without them, each one a warning", async () => {
    const data = await dataOf(withConfig("hostnam: a\nhostname: b\nlisten: c\nfabrics: [{ name: f, adapters: [mlx5_0] }]\n"));
    expect(data).toMatchObject({
      hostname: "b",
      hcas: [{ ports: [{ fabric: "f" }] }],
      warnings: [
        '/etc/llmgw/agent.yaml:1:1: unknown key "hostnam", did you mean "hostname"?; the key is not used',
        expect.stringMatching(/^\/etc\/llmgw\/agent\.yaml:3:1: unknown key "listen" .*; the key is not used$/),
      ],
    });
  });

  test("with anything else wrong is not used at all, and the warning says so", async () => {
    for (const [text, place] of [
      ["hostname: b\nmodel_dirs: [relative]\n", "2:14: model_dirs[0]: an absolute path"],
      ["hostname: b\nfabrics: 7\n", "2:1: fabrics: expected Array, found 7"],
      ["hostname: [b\n", ""],
      ["- hostname: b\n", "1:1: expected Object, found Array"],
    ] as const) {
      const data = await dataOf(withConfig(text));
      expect(data).toMatchObject({ hostname: "trainbox17.lab.example.org", gpus: [{ index: 0 }] });
      expect(data.warnings).toEqual([expect.stringContaining("agent.yaml is not used: /etc/llmgw/agent.yaml:")]);
      expect(String(data.warnings)).toContain(place.split(": ")[0] ?? "");
    }
  });

  test("that may not be read is not used, and the warning says why", async () => {
    const files = { ...SMALL_NODE, "machine.yaml": `${SMALL_NODE["machine.yaml"]}unreadable: [${AGENT_CONFIG_PATH}]\n` };
    const data = await dataOf(files);
    expect(data).toMatchObject({ hostname: "trainbox17.lab.example.org", warnings: [expect.stringContaining("permission denied")] });
  });

  test("loses against the flags", async () => {
    const files = { ...withConfig("discovery: { ib_root: /nowhere }\nmodel_dirs: [/nowhere]\n"), "root/m/note": "" };
    const data = await dataOf(files, ["--ib-root", "/sys/class/infiniband", "--model-dir", "/m"]);
    expect(data).toMatchObject({ hcas: [{ name: "mlx5_0" }], storage: [{ path: "/m" }] });
  });

  test("may tell which cards to leave alone", async () => {
    expect(await dataOf(withConfig('discovery: { skip_gpus: ["0"] }\n'))).toMatchObject({
      gpus: [],
      unusable_cards: [{ index: 0, reason: expect.stringContaining("left alone") }],
    });
  });
});

test("the environment of whoever replays a machine says nothing about it", async () => {
  using folder = temporaryFolder();
  layOut(folder.path, { ...BARE, "root/mine/note": "" });
  const { stdout } = await runLlmgw(["inventory", "--json", "--machine", folder.path], { env: { HF_HUB_CACHE: "/mine", HOME: "/mine" } });
  expect(JSON.parse(stdout)).toMatchObject({ storage: [] });
});
