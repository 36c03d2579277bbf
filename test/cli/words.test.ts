/** What the command line says about the words it is given. */
import { describe, expect, test } from "bun:test";
import { versionLine } from "../../src/cli/version.ts";
import { explanation, runLlmgw } from "../support/cli.ts";
import { layOut, temporaryFolder } from "../support/folders.ts";

const MISTAKES: readonly {
  readonly fact: string;
  readonly words: readonly string[];
  readonly says: readonly [string, string, string];
  readonly usage: string;
}[] = [
  {
    fact: "an unknown flag is suggested the near one",
    words: ["inventory", "--jsn"],
    says: ["unknown flag --jsn", "this command has no such flag", "did you mean --json?"],
    usage: "llmgw inventory",
  },
  {
    fact: "an unknown flag with a value is named without the value",
    words: ["inventory", "--recrod=/tmp/x"],
    says: ["unknown flag --recrod", "this command has no such flag", "did you mean --record?"],
    usage: "llmgw inventory",
  },
  {
    fact: "a mistyped global flag is suggested too",
    words: ["inventory", "--machin=x"],
    says: ["unknown flag --machin", "this command has no such flag", "did you mean --machine?"],
    usage: "llmgw inventory",
  },
  {
    fact: "a mistyped global flag before the command is suggested too",
    words: ["--verison"],
    says: ["unknown flag --verison", '"llmgw" has no such flag', "did you mean --version?"],
    usage: "llmgw",
  },
  {
    fact: "a flag of the command before its name is told where it belongs",
    words: ["--only-gpus", "inventory"],
    says: ["unknown flag --only-gpus", '"llmgw" has no such flag', "flags of a command stand after its name"],
    usage: "llmgw",
  },
  {
    fact: "a flag like no other gets no suggestion",
    words: ["inventory", "--quux"],
    says: ["unknown flag --quux", "this command has no such flag", "see the usage below"],
    usage: "llmgw inventory",
  },
  {
    fact: "a short flag is unknown",
    words: ["inventory", "-j"],
    says: ["unknown flag -j", "this command has no such flag", "see the usage below"],
    usage: "llmgw inventory",
  },
  {
    fact: "a flag that is not negatable has no --no- form",
    words: ["inventory", "--no-json"],
    says: ["unknown flag --no-json", "this command has no such flag", "did you mean --json?"],
    usage: "llmgw inventory",
  },
  {
    fact: "--gpu is no flag although --no-gpu is one",
    words: ["inventory", "--gpu"],
    says: ["unknown flag --gpu", "this command has no such flag", "see the usage below"],
    usage: "llmgw inventory",
  },
  {
    fact: "an unknown command is suggested the near one",
    words: ["inventroy"],
    says: ['unknown command "inventroy"', '"llmgw" has no such command', "did you mean inventory?"],
    usage: "llmgw",
  },
  {
    fact: "an unknown command of a group shows the group's usage",
    words: ["agent", "frobnicate"],
    says: ['unknown command "frobnicate"', '"llmgw agent" has no such command', "give one of those below"],
    usage: "llmgw agent",
  },
  {
    fact: "a stray argument is named",
    words: ["inventory", "everything"],
    says: ['stray argument "everything"', "this command takes no arguments", "leave it out"],
    usage: "llmgw inventory",
  },
  {
    fact: "a second argument where one is taken is stray",
    words: ["completion", "bash", "zsh"],
    says: ['stray argument "zsh"', "this command takes 1", "leave it out"],
    usage: "llmgw completion",
  },
  {
    fact: "a missing argument is named with what can be given",
    words: ["completion"],
    says: ["SHELL is missing", "the shell to write it for", "give bash or zsh or fish"],
    usage: "llmgw completion",
  },
  {
    fact: "an argument outside the choices is suggested the near one",
    words: ["completion", "bsh"],
    says: ['"bsh" is not known here', "SHELL is one of: bash, zsh, fish", "did you mean bash?"],
    usage: "llmgw completion",
  },
  {
    fact: "a flag at the end without its value",
    words: ["inventory", "--record"],
    says: ["--record needs a value", "none follows it", "write --record DIR"],
    usage: "llmgw inventory",
  },
  {
    fact: "a flag with an empty value",
    words: ["inventory", "--record="],
    says: ["--record needs a value", "none follows it", "write --record DIR"],
    usage: "llmgw inventory",
  },
  {
    fact: "a flag whose value is a flag",
    words: ["inventory", "--ib-root", "--json"],
    says: ["--ib-root needs a value", '"--json" follows it, which is a flag', "write --ib-root DIR"],
    usage: "llmgw inventory",
  },
  {
    fact: "a global flag whose value is a flag",
    words: ["inventory", "--machine", "--json"],
    says: ["--machine needs a value", '"--json" follows it, which is a flag', "write --machine DIR or a name"],
    usage: "llmgw",
  },
  {
    fact: "a global flag whose value is a short flag",
    words: ["inventory", "--machine", "-h"],
    says: ["--machine needs a value", '"-h" follows it, which is a flag', "write --machine DIR or a name"],
    usage: "llmgw",
  },
  {
    fact: "a global flag at the end without its value",
    words: ["inventory", "--log-level"],
    says: ["--log-level needs a value", "none follows it", "write --log-level error|warn|info|debug"],
    usage: "llmgw",
  },
  {
    fact: "a flag given twice",
    words: ["inventory", "--ib-root", "/a", "--ib-root=/b"],
    says: ["--ib-root is given twice", 'with "/a" and "/b"', "leave one out"],
    usage: "llmgw inventory",
  },
  {
    fact: "a boolean flag given twice",
    words: ["inventory", "--json", "--json"],
    says: ["--json is given twice", "it counts once", "leave one out"],
    usage: "llmgw inventory",
  },
  {
    fact: "a flag and its opposite count as given twice",
    words: ["inventory", "--nvml", "--no-nvml"],
    says: ["--no-nvml is given twice", "it counts once", "leave one out"],
    usage: "llmgw inventory",
  },
  {
    fact: "a global flag given twice",
    words: ["--machine", "a", "inventory", "--machine=b"],
    says: ["--machine is given twice", 'with "a" and "b"', "leave one out"],
    usage: "llmgw inventory",
  },
  {
    fact: "a boolean flag with a value",
    words: ["inventory", "--json=yes"],
    says: ["--json takes no value", 'it was given "yes"', "write --json alone"],
    usage: "llmgw inventory",
  },
  {
    fact: "a global boolean flag with a value",
    words: ["inventory", "--no-color=1"],
    says: ["--no-color takes no value", 'it was given "1"', "write --no-color alone"],
    usage: "llmgw",
  },
  {
    fact: "a wrong choice of a global flag is suggested the near one",
    words: ["inventory", "--log-level", "wran"],
    says: ["--log-level wran is not known", "it takes one of: error, warn, info, debug", "did you mean warn?"],
    usage: "llmgw",
  },
  {
    fact: "no words at all",
    words: [],
    says: ["no command given", '"llmgw" is a group of commands', "give one of those below"],
    usage: "llmgw",
  },
  {
    fact: "nothing but --",
    words: ["--"],
    says: ["no command given", '"llmgw" is a group of commands', "give one of those below"],
    usage: "llmgw",
  },
  {
    fact: "a flag after -- is an argument",
    words: ["inventory", "--", "--json"],
    says: ['stray argument "--json"', "this command takes no arguments", "leave it out"],
    usage: "llmgw inventory",
  },
  {
    fact: "a global flag after -- is an argument",
    words: ["inventory", "--", "--help"],
    says: ['stray argument "--help"', "this command takes no arguments", "leave it out"],
    usage: "llmgw inventory",
  },
  {
    fact: "a flag after a leading -- is a command that is not known",
    words: ["--", "--help"],
    says: ['unknown command "--help"', '"llmgw" has no such command', "give one of those below"],
    usage: "llmgw",
  },
  {
    fact: "a lone dash is an argument",
    words: ["inventory", "-"],
    says: ['stray argument "-"', "this command takes no arguments", "leave it out"],
    usage: "llmgw inventory",
  },
];

describe("a mistake in the words exits with 2, says what, why and what to do on stderr with the usage, and leaves stdout empty", () => {
  for (const { fact, words, says, usage } of MISTAKES) {
    test(`${fact}: llmgw ${words.join(" ")}`, async () => {
      const { exitCode, stdout, stderr } = await runLlmgw(words);
      expect(stderr).toStartWith(`${explanation(...says)}\n`);
      expect(stderr).toMatch(new RegExp(`\\nUsage: ${usage}( (COMMAND|\\[COMMAND\\] \\[FLAGS\\]|\\[FLAGS\\]( bash.*)?))?\\n`));
      expect(stdout).toBe("");
      expect(exitCode).toBe(2);
    });
  }
});

describe("names that every object has are no commands, flags or arguments", () => {
  for (const name of ["constructor", "__proto__", "toString", "hasOwnProperty"]) {
    test(name, async () => {
      for (const words of [
        [name],
        ["agent", name],
        [`--${name}`],
        ["inventory", `--${name}`],
        ["inventory", `--${name}=x`],
        ["inventory", `--no-${name}`],
        ["completion", name],
        ["--log-level", name, "inventory"],
      ]) {
        const { exitCode, stdout, stderr } = await runLlmgw(words);
        expect([words, exitCode, stdout]).toEqual([words, 2, ""]);
        expect(stderr).toMatch(/^llmgw: (unknown (command|flag) |"\w+" is not known here|--log-level \w+ is not known)/);
      }
    });
  }
});

describe("help", () => {
  for (const [words, usage] of [
    [["--help"], "Usage: llmgw COMMAND\n"],
    [["-h"], "Usage: llmgw COMMAND\n"],
    [["agent", "--help"], "Usage: llmgw agent [COMMAND] [FLAGS]\n"],
    [["--help", "agent"], "Usage: llmgw agent [COMMAND] [FLAGS]\n"],
    [["inventory", "--help"], "Usage: llmgw inventory [FLAGS]\n"],
    [["agent", "inventory", "-h"], "Usage: llmgw agent inventory [FLAGS]\n"],
    [["-h", "agent", "inventory"], "Usage: llmgw agent inventory [FLAGS]\n"],
    [["completion", "--help"], "Usage: llmgw completion [FLAGS] bash|zsh|fish\n"],
  ] as const) {
    test(`llmgw ${words.join(" ")} is on stdout, with 0`, async () => {
      const { exitCode, stdout, stderr } = await runLlmgw(words);
      expect(stdout).toContain(usage);
      expect(stdout).toContain("--log-level LEVEL");
      expect(stdout).toEndWith("\n");
      expect([exitCode, stderr]).toEqual([0, ""]);
    });
  }

  test("help wins over mistakes in the words of the command", async () => {
    expect(await runLlmgw(["inventory", "--nonsense", "x", "--help"])).toMatchObject({ exitCode: 0, stderr: "" });
  });

  test("the usage names every flag, with its value and its opposite", async () => {
    const { stdout } = await runLlmgw(["inventory", "--help"]);
    for (const flag of ["--json ", "--nvidia-smi PATH", "--ib-root DIR", "--no-gpu ", "--only-gpus ", "--[no-]nvml", "--model-dir DIR…"]) {
      expect(stdout).toContain(flag);
    }
  });

  test("no line of any usage is longer than a terminal of 120 columns or ends with a blank", async () => {
    for (const words of [[], ["agent"], ["inventory"], ["completion"]]) {
      const { stdout } = await runLlmgw([...words, "--help"]);
      for (const line of stdout.split("\n")) {
        expect(line.length).toBeLessThanOrEqual(120);
        expect(line).toBe(line.trimEnd());
      }
    }
  });
});

describe("the version", () => {
  for (const words of [
    ["--version"],
    ["-V"],
    ["inventory", "--version"],
    ["-V", "agent", "inventory"],
    ["nonsense", "--version", "--jsn"],
  ]) {
    test(`llmgw ${words.join(" ")} shows it`, async () => {
      expect(await runLlmgw(words)).toEqual({ exitCode: 0, stdout: `${versionLine()}\n`, stderr: "" });
    });
  }
});

describe("global flags", () => {
  const MACHINE = { "machine.yaml": "about: nothing is here\nsource: composed\nunrecorded: absent\n" };

  test("may stand before, between and after the words, with = and without", async () => {
    using folder = temporaryFolder();
    layOut(folder.path, MACHINE);
    const shown = await runLlmgw(["--machine", folder.path, "agent", "inventory", "--json"]);
    expect(shown.exitCode).toBe(0);
    for (const words of [
      ["agent", "--machine", folder.path, "inventory", "--json"],
      ["agent", "inventory", "--machine", folder.path, "--json"],
      ["agent", "inventory", "--json", "--machine", folder.path],
      [`--machine=${folder.path}`, "agent", "inventory", "--json"],
      ["agent", "inventory", `--machine=${folder.path}`, "--json"],
      ["inventory", "--json", `--machine=${folder.path}`, "--"],
      ["--log-level=error", "agent", "--no-color", "inventory", "--json", "--machine", folder.path],
      ["--machine", folder.path, "--", "inventory"],
    ]) {
      const again = await runLlmgw(words);
      expect([words, again.exitCode, again.stderr]).toEqual([words, 0, shown.stderr]);
      if (words.includes("--json")) expect(again.stdout).toBe(shown.stdout);
    }
  });

  test("the machine may come from LLMGW_MACHINE, the flag wins, and an empty variable is none", async () => {
    using folder = temporaryFolder();
    layOut(folder.path, MACHINE);
    const byVariable = await runLlmgw(["inventory"], { env: { LLMGW_MACHINE: folder.path } });
    expect([byVariable.exitCode, byVariable.stderr]).toEqual([0, expect.stringContaining("recorded machine")]);
    const both = await runLlmgw(["inventory", "--machine", folder.path], { env: { LLMGW_MACHINE: "/nowhere" } });
    expect(both.exitCode).toBe(0);
    const empty = await runLlmgw(["inventory"], { env: { LLMGW_MACHINE: "" } });
    expect(empty.stderr).toContain("did not expect the host");
  });

  test("a machine that is not there is a mistake with a way out", async () => {
    const { exitCode, stdout, stderr } = await runLlmgw(["inventory", "--machine", "/nowhere/at/all"]);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toStartWith('llmgw: there is no recorded machine "/nowhere/at/all"\n  why: ');
    expect(stderr).not.toContain("Usage:");
  });

  test("the log level may come from LLMGW_LOG_LEVEL, and the flag wins over a bad one", async () => {
    expect((await runLlmgw(["completion", "bash"], { env: { LLMGW_LOG_LEVEL: "debug" } })).exitCode).toBe(0);
    expect((await runLlmgw(["completion", "bash"], { env: { LLMGW_LOG_LEVEL: "" } })).exitCode).toBe(0);
    expect((await runLlmgw(["completion", "bash", "--log-level", "warn"], { env: { LLMGW_LOG_LEVEL: "loud" } })).exitCode).toBe(0);
  });

  test("a bad LLMGW_LOG_LEVEL is named as the variable", async () => {
    const { exitCode, stdout, stderr } = await runLlmgw(["completion", "bash"], { env: { LLMGW_LOG_LEVEL: "inof" } });
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toStartWith(
      explanation("LLMGW_LOG_LEVEL inof is not known", "it takes one of: error, warn, info, debug", "did you mean info?"),
    );
  });

  test("a bad LLMGW_LOG_LEVEL keeps nobody from the help and the version", async () => {
    const env = { LLMGW_LOG_LEVEL: "loud" };
    expect(await runLlmgw(["--help"], { env })).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await runLlmgw(["inventory", "-V"], { env })).toMatchObject({ exitCode: 0, stderr: "" });
  });
});

describe("colour", () => {
  const COLOUR = "\u001b[";
  for (const [fact, words, options, colored] of [
    ["on a terminal", [], { tty: true }, true],
    ["not in a pipe", [], { tty: false }, false],
    ["with an empty NO_COLOR, which says nothing", [], { tty: true, env: { NO_COLOR: "" } }, true],
    ["not with NO_COLOR=1", [], { tty: true, env: { NO_COLOR: "1" } }, false],
    ["not with NO_COLOR=0, since any value counts", [], { tty: true, env: { NO_COLOR: "0" } }, false],
    ["not on a dumb terminal", [], { tty: true, env: { TERM: "dumb" } }, false],
    ["on another terminal", [], { tty: true, env: { TERM: "xterm-256color" } }, true],
    ["not with --no-color", ["--no-color"], { tty: true }, false],
  ] as const) {
    test(`${colored ? "shown" : "absent"}: ${fact}`, async () => {
      const { stdout } = await runLlmgw(["inventory", "--help", ...words], options);
      expect(stdout.includes(COLOUR)).toBe(colored);
    });
  }

  test("is never in the usage after a mistake, nor in what a program reads", async () => {
    expect((await runLlmgw(["nonsense"], { tty: true })).stderr).not.toContain(COLOUR);
    expect((await runLlmgw(["completion", "bash"], { tty: true })).stdout).not.toContain(COLOUR);
  });
});
