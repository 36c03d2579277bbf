import { expect, test } from "bun:test";
import { askEarly, plainInventory } from "../../src/discovery/early.ts";
import { AGENT_CONFIG_PATH } from "../../src/domain/config-paths.ts";
import { openMachine } from "../../src/platform/machine.ts";
import type { Runner } from "../../src/platform/runner.ts";

const { signal } = new AbortController();

async function counted(kind: Runner["kind"] = "recorded"): Promise<{ readonly runner: Runner; readonly asked: string[] }> {
  const inner = await openMachine("h100-nvswitch-8", { waits: "skip" });
  const asked: string[] = [];
  const exec: Runner["exec"] = (argv, options) => {
    asked.push(argv.join(" "));
    return inner.exec(argv, options);
  };
  return { runner: { ...inner, kind, exec }, asked };
}

test.each([
  [["inventory"], undefined],
  [["inventory", "--json"], undefined],
  [["--no-color", "inventory", "--machine", "x", "--json"], "x"],
  [["--machine", "inventory", "agent", "inventory"], "inventory"],
] as const)("%p is a plain inventory", (words, machine) => {
  expect(plainInventory(words)).toEqual({ machine });
});

test.each([
  ["another command", ["doctor"]],
  ["no command", ["--json"]],
  ["a flag that changes what is asked", ["inventory", "--no-gpu"]],
  ["another program to ask", ["inventory", "--nvidia-smi", "/x"]],
  ["a flag with = in it", ["inventory", "--machine=x"]],
  ["help", ["inventory", "--help"]],
  ["a flag that stands twice", ["inventory", "--json", "--json"]],
  ["a flag without its value", ["inventory", "--machine"]],
  ["a stray word", ["inventory", "everything"]],
  ["words behind --", ["inventory", "--", "x"]],
])("%s is none", (_, words) => {
  expect(plainInventory(words)).toBeUndefined();
});

test("calls are made at once, and each is handed out once", async () => {
  const { runner, asked } = await counted();
  const early = await askEarly(runner, AGENT_CONFIG_PATH, { library: false, signal });
  expect(asked).toEqual(["nvidia-smi -L", "nvidia-smi topo -m", "nvidia-smi -q -x"]);
  const lock = { lock: "driver" } as const;
  expect((await early.exec(["nvidia-smi", "-L"], lock))?.stdout).toContain("GPU 0");
  expect(asked).toHaveLength(3);
  await early.exec(["nvidia-smi", "-L"], lock);
  expect(asked).toHaveLength(4);
});

test("on a host with the library the long query is not made", async () => {
  const { runner, asked } = await counted("host");
  await askEarly(runner, AGENT_CONFIG_PATH, { library: true, signal });
  expect(asked).toEqual(["nvidia-smi -L", "nvidia-smi topo -m"]);
});

test("nothing is asked where an agent.yaml may say otherwise, or cannot be looked for", async () => {
  for (const stat of [async () => ({ kind: "file", sizeBytes: 1, mtimeMs: 0 }) as const, async () => Promise.reject(new Error("no"))]) {
    const { runner, asked } = await counted();
    await askEarly({ ...runner, stat }, AGENT_CONFIG_PATH, { library: false, signal });
    expect(asked).toEqual([]);
  }
});

test("a call that fails is the failure of whoever takes it, and of nobody else", async () => {
  const { runner } = await counted();
  const failing = { ...runner, exec: () => Promise.reject(new Error("no tool")) };
  const early = await askEarly(failing, AGENT_CONFIG_PATH, { library: false, signal });
  await new Promise((resolve) => setImmediate(resolve));
  await expect(early.exec(["nvidia-smi", "-L"], { lock: "driver" })).rejects.toThrow("no tool");
});
