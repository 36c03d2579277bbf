/** The program itself, started as its users start it: pipes, exit codes and signals. */
import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, watch } from "node:fs";
import { join } from "node:path";
import { versionLine } from "../../src/cli/version.ts";
import { runLlmgw } from "../support/cli.ts";
import { layOut, temporaryFolder } from "../support/folders.ts";
import { SMALL_NODE } from "../support/small-node.ts";

const MAIN = join(import.meta.dir, "../../src/main.ts");

function environment(folder: string): Record<string, string> {
  return { PATH: process.env.PATH ?? "", HOME: folder, LLMGW_RUNTIME_DIR: folder, LLMGW_SYSTEM_STATE: folder };
}

function run(folder: string, ...words: readonly string[]) {
  const done = Bun.spawnSync({
    cmd: [process.execPath, MAIN, ...words],
    cwd: folder,
    env: environment(folder),
    stdout: "pipe",
    stderr: "pipe",
  });
  return { exitCode: done.exitCode, stdout: done.stdout.toString(), stderr: done.stderr.toString() };
}

/** Runs a line of shell in which `llmgw` is the program. Standard output of the whole line. */
function shell(folder: string, line: string): string {
  const script = `llmgw() { "$BUN" "$MAIN" "$@"; }\n${line}\n`;
  const env = { ...environment(folder), BUN: process.execPath, MAIN };
  return Bun.spawnSync({ cmd: ["bash", "-c", script], cwd: folder, env, stdout: "pipe", stderr: "inherit" }).stdout.toString();
}

/** A machine whose inventory is some hundred KiB long. */
function largeMachine(folder: string): string {
  const files: Record<string, string> = { "machine.yaml": "about: many models\nsource: composed\nunrecorded: absent\n" };
  for (let at = 0; at < 400; at++) {
    files[`root/m/${String(at).padStart(4, "0")}-${"x".repeat(150)}/config.json`] = '{"model_type":"llama"}';
    files[`root/m/${String(at).padStart(4, "0")}-${"x".repeat(150)}/model.safetensors`] = "?";
  }
  return layOut(join(folder, "large"), files);
}

describe("exit codes", () => {
  test("0 for the version, the help and a report; 2 for a mistake", () => {
    using folder = temporaryFolder();
    layOut(folder.path, SMALL_NODE);
    expect(run(folder.path, "--version")).toEqual({ exitCode: 0, stdout: `${versionLine()}\n`, stderr: "" });
    expect(run(folder.path, "inventory", "--version")).toEqual({ exitCode: 0, stdout: `${versionLine()}\n`, stderr: "" });
    expect(run(folder.path, "--help")).toMatchObject({ exitCode: 0, stderr: "" });
    expect(run(folder.path, "inventory", "--machine", ".")).toMatchObject({ exitCode: 0 });
    expect(run(folder.path)).toMatchObject({ exitCode: 2, stdout: "" });
    expect(run(folder.path, "inventory", "--nonsense")).toMatchObject({ exitCode: 2, stdout: "" });
  });

  test("2, once and without a trace, for a recording that lacks everything", () => {
    using folder = temporaryFolder();
    layOut(folder.path, {
      "machine.yaml": "about: empty\nsource: composed\nabsent: [/etc/llmgw]\n",
    });
    const { exitCode, stdout, stderr } = run(folder.path, "inventory", "--machine", folder.path);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr.match(/does not hold/g)).toHaveLength(1);
    expect(stderr).not.toMatch(/^ +at /m);
  });
});

describe("pipes", () => {
  test("a report beyond what a pipe takes at once arrives whole", () => {
    using folder = temporaryFolder();
    const machine = largeMachine(folder.path);
    const text = shell(
      folder.path,
      `llmgw inventory --json --model-dir /m --machine '${machine}' 2>/dev/null | { read -r first; echo "$first"; cat; }`,
    );
    expect(text.length).toBeGreaterThan(3 * 64 * 1024);
    expect(JSON.parse(text).weights).toHaveLength(400);
  });

  test("a reader that has seen enough ends the program without a word, with 0", () => {
    using folder = temporaryFolder();
    const machine = largeMachine(folder.path);
    const line = `llmgw inventory --json --model-dir /m --machine '${machine}' 2>err | head -c 1; echo " \${PIPESTATUS[0]}"`;
    expect(shell(folder.path, line)).toBe("{ 0\n");
    expect(readFileSync(join(folder.path, "err"), "utf8")).toMatch(/^llmgw: this is the recorded machine large, not this host\n$/);
  });

  test("nobody to hear the complaint changes no exit code", () => {
    using folder = temporaryFolder();
    expect(shell(folder.path, "exec 3> >(exec true); wait $!; llmgw nonsense 2>&3; echo $?")).toBe("2\n");
    expect(shell(folder.path, "llmgw nonsense 2>&-; echo $?")).toBe("2\n");
  });
});

test.each(["h100-nvswitch-8", "a100-mig-mixed", "no-driver", "h100-card-lost"])(
  "what is asked early, before the program is loaded, changes nothing about the answer: %s",
  async (machine) => {
    using folder = temporaryFolder();
    const early = run(folder.path, "inventory", "--json", "--machine", machine);
    // The same with a word that has nothing asked early.
    const { stdout } = await runLlmgw(["inventory", "--json", `--machine=${machine}`]);
    expect([early.exitCode, early.stdout]).toEqual([0, stdout]);
  },
  60_000,
);

describe.skipIf(!existsSync("/dev/full"))("a full disk", () => {
  test("below stdout is said as what it is, with 2: no bug of ours, and no answer either", () => {
    using folder = temporaryFolder();
    layOut(folder.path, SMALL_NODE);
    for (const words of ["inventory --json --machine .", "--help", "inventory --version", "--version", "-V"]) {
      const said = shell(folder.path, `{ llmgw ${words} >/dev/full; } 2>&1; echo $?`);
      expect(said).toContain("llmgw: the answer could not be written to stdout\n  why: ENOSPC");
      expect(said).toEndWith("\n2\n");
    }
  });

  test("below stderr changes neither the answer nor the exit code", () => {
    using folder = temporaryFolder();
    layOut(folder.path, SMALL_NODE);
    expect(shell(folder.path, "llmgw nonsense 2>/dev/full; echo $?")).toBe("2\n");
    const answer = shell(folder.path, "llmgw inventory --json --machine . 2>/dev/full");
    expect(JSON.parse(answer)).toHaveProperty("gpus");
  });
});

describe("signals", () => {
  test("an interrupt while a command hangs ends the program with 130 and leaves no process behind", async () => {
    using folder = temporaryFolder();
    mkdirSync(join(folder.path, "bin"));
    const tool = join(folder.path, "bin", "nvidia-smi");
    layOut(folder.path, { "bin/nvidia-smi": `#!/bin/sh\necho $$ >> "${folder.path}/started"\nexec sleep 600\n` });
    chmodSync(tool, 0o755);
    const started = appears(folder.path, "started");
    const program = Bun.spawn({
      cmd: [process.execPath, MAIN, "inventory", "--only-gpus", "--nvidia-smi", tool],
      env: environment(folder.path),
      stdout: "pipe",
      stderr: "pipe",
    });
    await started;
    const before = performance.now();
    program.kill("SIGINT");
    expect(await program.exited).toBe(130);
    // The limit of a hanging nvidia-smi is 20 s: well below it, the interrupt did it.
    expect(performance.now() - before).toBeLessThan(5_000);
    expect(await new Response(program.stderr).text()).toBe("llmgw: interrupted\n");
    expect(await new Response(program.stdout).text()).toBe("");
    for (const pid of readFileSync(join(folder.path, "started"), "utf8").trim().split("\n")) {
      // Killed before the program ends, and gone when the kernel gets to it; one that was not killed sleeps beyond this test's limit.
      while (lives(Number(pid))) await Bun.sleep(1);
    }
  });

  test("an interrupt while a recorded command hangs ends the program with 130 too", async () => {
    using folder = temporaryFolder();
    layOut(folder.path, {
      "machine.yaml": "about: hangs\nsource: composed\nunrecorded: absent\ncommands:\n  - { argv: [nvidia-smi, -L], hangs: true }\n",
    });
    const program = Bun.spawn({
      cmd: [process.execPath, MAIN, "inventory", "--machine", folder.path],
      env: environment(folder.path),
      stdout: "pipe",
      stderr: "pipe",
    });
    // The line that names the machine is written before it is asked for anything, after the signals are taken care of.
    const said = program.stderr.getReader();
    await said.read();
    const before = performance.now();
    program.kill("SIGTERM");
    expect(await program.exited).toBe(130);
    expect(performance.now() - before).toBeLessThan(5_000);
  });
});

/** Waits until a file of that name stands in a folder. */
function appears(folder: string, name: string): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(folder, () => {
      if (!existsSync(join(folder, name))) return;
      watcher.close();
      resolve();
    });
  });
}

/** Dead but not yet collected by its parent does not count. */
function lives(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
