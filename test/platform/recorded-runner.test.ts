import { expect, test } from "bun:test";
import { join } from "node:path";
import { UserError } from "../../src/lib/user-error.ts";
import { openMachine } from "../../src/platform/machine.ts";
import { type Runner, RunnerError } from "../../src/platform/runner.ts";
import { layOut, temporaryFolder } from "../support/folders.ts";

const TREE = {
  "list.txt": "GPU 0\n",
  "machine.yaml": `about: a test
source: composed
recorded_at: 2026-11-30T12:00:00Z
commands:
  - { argv: [nvidia-smi, -L], stdout: list.txt }
  - { argv: [nvidia-smi, -q], exit: 9 }
  - { argv: [nvidia-smi, topo], hangs: true }
  - { argv: [nvidia-smi, slow], delay_ms: 50, stdout: list.txt }
absent_commands: [nvidia-imex-ctl]
absent: [/sys/class/infiniband, /etc/llmgw]
unreadable: [/proc/secret]
disks: { /var/lib: { total_bytes: 1000, free_bytes: 10 }, /: { total_bytes: 5, free_bytes: 1 } }
`,
  "root/proc/meminfo": "MemTotal: 1 kB\n",
  "root/proc/secret/key": "x",
  "root/sys/devices/card/numa_node": "1\n",
  "root/sys/class/thing/card": { link: "../../devices/card" },
  "root/sys/class/thing/absolute": { link: "/sys/devices/card" },
  "root/sys/class/thing/escape": { link: "../../../../../../etc/passwd" },
  "root/sys/class/thing/loop": { link: "loop" },
  "root/dev/nvidia0": "",
};

async function machine(folder: string): Promise<Runner> {
  return openMachine(layOut(folder, TREE), { waits: "skip" });
}

async function thrown(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => new Error("nothing was thrown"),
    (error: unknown) => error,
  );
}

function text(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
}

test("a command matches on the program's base name and its exact arguments", async () => {
  using folder = temporaryFolder();
  const runner = await machine(folder.path);
  expect(await runner.exec(["/usr/bin/nvidia-smi", "-L"])).toEqual({ exitCode: 0, stdout: "GPU 0\n", stderr: "", truncated: false });
  expect(await runner.exec(["nvidia-smi", "-q"])).toMatchObject({ exitCode: 9, stdout: "" });
  expect(await runner.exec(["nvidia-imex-ctl", "-N"])).toBeUndefined();
  expect(await runner.exec(["nvidia-smi", "slow"])).toMatchObject({ stdout: "GPU 0\n" });
});

test("a command that hangs ends at the caller's limit", async () => {
  using folder = temporaryFolder();
  const error = await thrown((await machine(folder.path)).exec(["nvidia-smi", "topo"], { timeoutMs: 2_000 }));
  expect(error).toBeInstanceOf(RunnerError);
  expect(error).toMatchObject({ kind: "timeout", message: "nvidia-smi topo did not answer within 2 s" });
});

test("asking for what was not recorded is loud, for a command, a file and a disk", async () => {
  using folder = temporaryFolder();
  const runner = await machine(folder.path);
  for (const asked of [
    runner.exec(["nvidia-smi", "-i", "0"]),
    runner.readFile("/proc/version"),
    runner.listDir("/opt"),
    runner.readLink("/sys/block"),
  ]) {
    const error = await thrown(asked);
    expect(error).toBeInstanceOf(UserError);
    expect(String(error)).toContain("does not hold");
  }
});

test("with unrecorded: absent everything else is simply not there", async () => {
  using folder = temporaryFolder();
  const yaml = TREE["machine.yaml"].replace("source: composed", "source: composed\nunrecorded: absent");
  const runner = await openMachine(layOut(folder.path, { ...TREE, "machine.yaml": yaml }));
  expect(await runner.exec(["nvidia-smi", "-i", "0"])).toBeUndefined();
  expect(await runner.readFile("/proc/version")).toBeUndefined();
});

test("a recorded folder is whole, an absent path and all below it are absent", async () => {
  using folder = temporaryFolder();
  const runner = await machine(folder.path);
  expect(await runner.readFile("/sys/devices/card/local_cpulist")).toBeUndefined();
  expect(await runner.listDir("/sys/class/infiniband")).toBeUndefined();
  expect(await runner.readFile("/etc/llmgw/agent.yaml")).toBeUndefined();
});

test("links are followed inside the tree and never out of it", async () => {
  using folder = temporaryFolder();
  const runner = await machine(folder.path);
  expect(text(await runner.readFile("/sys/class/thing/card/numa_node"))).toBe("1\n");
  expect(text(await runner.readFile("/sys/class/thing/absolute/numa_node"))).toBe("1\n");
  expect(await runner.realPath("/sys/class/thing/card")).toBe("/sys/devices/card");
  expect(await runner.readLink("/sys/class/thing/card")).toBe("../../devices/card");
  expect(await runner.listDir("/sys/class/thing")).toEqual(["absolute", "card", "escape", "loop"]);
  expect(await thrown(runner.readFile("/sys/class/thing/escape"))).toBeInstanceOf(UserError);
  expect(await thrown(runner.readFile("/sys/class/thing/loop"))).toMatchObject({ kind: "io" });
});

test("what may not be read is refused, a folder is not a file, a file under /dev is a device node", async () => {
  using folder = temporaryFolder();
  const runner = await machine(folder.path);
  expect(await thrown(runner.readFile("/proc/secret/key"))).toMatchObject({ kind: "denied" });
  expect(await thrown(runner.readFile("/sys/devices/card"))).toMatchObject({ kind: "io" });
  expect(await runner.stat("/dev/nvidia0")).toMatchObject({ kind: "other" });
  expect(await runner.diskSpace("/var/lib/llmgw")).toEqual({ total_bytes: 1000, free_bytes: 10 });
  expect(await runner.diskSpace("/home")).toEqual({ total_bytes: 5, free_bytes: 1 });
  expect(runner.now().toISOString()).toBe("2026-11-30T12:00:00.000Z");
});

test("a missing machine, a folder without machine.yaml, and a name with a typo each get one clear message", async () => {
  using folder = temporaryFolder();
  expect(await thrown(openMachine(join(folder.path, "nowhere")))).toMatchObject({ name: "UserError", exitCode: 2 });
  expect(await thrown(openMachine(folder.path))).toMatchObject({ why: "it holds no machine.yaml" });
  expect(await thrown(openMachine("cpu-onyl"))).toMatchObject({ fix: "did you mean --machine cpu-only?" });
});

test.each([
  ["an unknown key", "about: x\nsource: composed\nabsentt: []\n", 'machine.yaml:3:1: unknown key "absentt", did you mean "absent"?'],
  ["a missing key", "about: x\n", 'the key "source" is missing'],
  ["a wrong value", "about: x\nsource: guessed\n", "machine.yaml:2:1: source: expected"],
  [
    "a wrong type deep inside",
    "about: x\nsource: composed\ncommands:\n  - argv: nvidia-smi\n",
    "machine.yaml:4:5: commands[0].argv: expected Array",
  ],
  ["a file that is not there", "about: x\nsource: composed\ncommands: [ { argv: [a], stdout: gone.txt } ]\n", 'names the file "gone.txt"'],
  [
    "a file outside the folder",
    "about: x\nsource: composed\ncommands: [ { argv: [a], stdout: ../x } ]\n",
    "the name of a file beside machine.yaml",
  ],
  ["broken YAML", "about: [x\n", "machine.yaml:"],
])("a machine.yaml with %s is refused with its place", async (_what, yaml, message) => {
  using folder = temporaryFolder();
  const error = await thrown(openMachine(layOut(folder.path, { "machine.yaml": yaml })));
  expect(error).toBeInstanceOf(UserError);
  expect(error).toMatchObject({ exitCode: 2 });
  expect(error instanceof UserError ? error.why : "").toContain(message);
});
