/** The completion scripts, as the shells themselves take them. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runLlmgw } from "../support/cli.ts";
import { temporaryFolder } from "../support/folders.ts";

async function script(shell: string): Promise<string> {
  const { exitCode, stdout, stderr } = await runLlmgw(["completion", shell]);
  expect([exitCode, stderr]).toEqual([0, ""]);
  return stdout;
}

/** Runs a shell without its start-up files; throws with what it complained about. */
function shellRun(cmd: readonly string[], cwd: string): string {
  const done = Bun.spawnSync({ cmd: [...cmd], cwd, env: { PATH: process.env.PATH, HOME: cwd }, stdout: "pipe", stderr: "pipe" });
  const complaint = done.stderr.toString();
  if (done.exitCode !== 0 || complaint !== "") throw new Error(`${cmd[0]} ended with ${done.exitCode}: ${complaint}`);
  return done.stdout.toString();
}

const bash = Bun.which("bash");

describe.skipIf(bash === null)("bash", () => {
  const program = bash ?? "";

  /** What bash offers for the last word of a line. */
  async function offered(words: readonly string[]): Promise<readonly string[]> {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, "completion.bash"), await script("bash"));
    writeFileSync(join(folder.path, "file-of-mine"), "");
    mkdirSync(join(folder.path, "folder of mine"));
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is bash's
    const drive = 'source ./completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _llmgw; printf "%s\\n" "${COMPREPLY[@]}"';
    const out = shellRun([program, "--norc", "--noprofile", "-uc", drive, "bash", "llmgw", ...words], folder.path);
    return out.split("\n").filter((line) => line !== "");
  }

  test("takes the script without a complaint", async () => {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, "c"), await script("bash"));
    shellRun([program, "-n", "c"], folder.path);
  });

  test("offers the commands and the flags of every command at the top", async () => {
    const words = await offered([""]);
    expect(words).toEqual([
      "inventory",
      "doctor",
      "agent",
      "up",
      "server",
      "ctl",
      "engine",
      "completion",
      "--machine",
      "--log-level",
      "--no-color",
      "--help",
      "--version",
    ]);
  });

  test("offers what stands below a group", async () => {
    expect(await offered(["agent", ""])).toContain("inventory");
    expect(await offered(["agent", ""])).not.toContain("completion");
    expect(await offered(["agent", "inv"])).toEqual(["inventory"]);
  });

  test("offers every flag of a command, opposites too, wherever it stands", async () => {
    for (const path of [["inventory"], ["agent", "inventory"], ["--log-level", "debug", "inventory"]]) {
      const words = await offered([...path, "--"]);
      for (const flag of ["--json", "--no-gpu", "--only-gpus", "--nvml", "--no-nvml", "--record", "--record-raw", "--machine"]) {
        expect(words).toContain(flag);
      }
      expect(new Set(words).size).toBe(words.length);
    }
    expect(await offered(["inventory", "--rec"])).toEqual(["--record", "--record-raw"]);
    expect(await offered(["inventory", ""])).not.toContain("agent");
  });

  test("offers the values of a flag, files where one is wanted, folders where only a folder will do", async () => {
    expect(await offered(["--log-level", ""])).toEqual(["error", "warn", "info", "debug"]);
    expect(await offered(["inventory", "--log-level", "w"])).toEqual(["warn"]);
    expect(await offered(["inventory", "--nvidia-smi", "f"])).toEqual(["file-of-mine", "folder of mine"]);
    expect(await offered(["inventory", "--record", "f"])).toEqual(["folder of mine"]);
    expect(await offered(["--machine", "f"])).toEqual(["folder of mine"]);
  });

  test("offers the values behind = too, of which bash makes a word of its own", async () => {
    expect(await offered(["--log-level", "="])).toEqual(["error", "warn", "info", "debug"]);
    expect(await offered(["inventory", "--log-level", "=", "d"])).toEqual(["debug"]);
    expect(await offered(["inventory", "--record", "=", "f"])).toEqual(["folder of mine"]);
  });

  test("offers the arguments of a command", async () => {
    expect(await offered(["completion", "b"])).toEqual(["bash"]);
    expect(await offered(["completion", "ba", "--he"])).toEqual(["--help"]);
  });

  test("takes the value of a flag for no command", async () => {
    expect(await offered(["--machine", "agent", "inv"])).toEqual(["inventory"]);
    expect(await offered(["--machine", "agent", "comp"])).toEqual(["completion"]);
    expect(await offered(["--machine", "=", "agent", "comp"])).toEqual(["completion"]);
    expect(await offered(["inventory", "--record", "agent", "--js"])).toEqual(["--json"]);
  });
});

const zsh = Bun.which("zsh");

describe.skipIf(zsh === null)("zsh", () => {
  const program = zsh ?? "";

  /** What zsh is told to offer for the last word of a line. Its own part, taking what begins with that word, is left out. */
  async function told(words: readonly string[]): Promise<readonly string[]> {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, "_llmgw"), await script("zsh"));
    const drive = [
      "compdef() { : }",
      'compadd() { [[ $1 == -- ]] && shift; print -rl -- "$@" }',
      '_files() { print -r -- "files $*" }',
      'compset() { print -r -- "prefix $*" }',
      'source ./_llmgw; words=("$@"); CURRENT=$#; _llmgw',
    ].join("\n");
    const out = shellRun([program, "-fuc", drive, "zsh", "llmgw", ...words], folder.path);
    return out.split("\n").filter((line) => line !== "");
  }

  test("takes the script without a complaint", async () => {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, "_llmgw"), await script("zsh"));
    shellRun([program, "-n", "_llmgw"], folder.path);
  });

  test("offers the commands at the top, and what stands below a group", async () => {
    const words = await told([""]);
    expect(words).toEqual([
      "inventory",
      "doctor",
      "agent",
      "up",
      "server",
      "ctl",
      "engine",
      "completion",
      "--machine",
      "--log-level",
      "--no-color",
      "--help",
      "--version",
    ]);
    expect(await told(["agent", ""])).toContain("inventory");
    expect(await told(["agent", ""])).not.toContain("completion");
    expect(await told(["completion", ""])).toContain("zsh");
  });

  test("offers every flag of a command, opposites too, wherever it stands", async () => {
    for (const path of [
      ["inventory"],
      ["agent", "inventory"],
      ["--log-level", "debug", "inventory"],
      ["--machine", "agent", "inventory"],
    ]) {
      const words = await told([...path, "--"]);
      for (const flag of ["--json", "--nvml", "--no-nvml", "--record", "--machine"]) expect(words).toContain(flag);
      expect(words).not.toContain("completion");
    }
  });

  test("offers the values of a flag, files where one is wanted, folders where only a folder will do", async () => {
    expect(await told(["inventory", "--log-level", ""])).toEqual(["error", "warn", "info", "debug"]);
    expect(await told(["inventory", "--nvidia-smi", ""])).toEqual(["files "]);
    expect(await told(["inventory", "--record", ""])).toEqual(["files -/"]);
    expect(await told(["--machine", ""])).toEqual(["files -/"]);
  });

  test("offers the values behind = too, which is one word in zsh", async () => {
    expect(await told(["--log-level=w"])).toEqual(["prefix -P 1 *=", "error", "warn", "info", "debug"]);
    expect(await told(["inventory", "--machine=a=b"])).toEqual(["prefix -P 1 *=", "files -/"]);
    expect(await told(["--machine=x", "comp"])).toContain("completion");
  });
});

const fish = Bun.which("fish");

describe.skipIf(fish === null)("fish", () => {
  const offers = async (line: string): Promise<readonly string[]> => {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, "c.fish"), await script("fish"));
    const text = shellRun([fish ?? "", "--no-config", "-c", `source c.fish; complete -C '${line}'`], folder.path);
    return text.split("\n").flatMap((one) => one.split("\t")[0] || []);
  };

  test("takes the script without a complaint", async () => {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, "c.fish"), await script("fish"));
    shellRun([fish ?? "", "--no-execute", "c.fish"], folder.path);
  });

  test.each([
    ["the commands at the top", "llmgw inv", ["inventory"]],
    ["what stands below a group", "llmgw ctl nodes sh", ["show"]],
    ["a command below a group as that, and not as the one of its name at the top", "llmgw ctl doctor --expl", []],
    ["the flags of a command", "llmgw agent inventory --js", ["--json"]],
    ["the values of a flag", "llmgw doctor --fail-on ", ["advise", "block", "degrade"]],
    ["the value of a flag as that, and not as a command", "llmgw --machine agent comp", ["completion"]],
  ] as const)("offers %s", async (_, line, wanted) => {
    expect(await offers(line)).toEqual([...wanted]);
  });
});

test("the zsh script is found by compinit, the fish script names each command", async () => {
  expect(await script("zsh")).toStartWith("#compdef llmgw\n");
  expect(await script("fish")).toContain(
    "complete -c llmgw -f -n \"__llmgw_at ''\" -a 'inventory doctor agent up server ctl engine completion'",
  );
});

test("the script is data too", async () => {
  const { stdout } = await runLlmgw(["completion", "bash", "--json"]);
  expect(JSON.parse(stdout)).toEqual({ shell: "bash", script: await script("bash") });
});
