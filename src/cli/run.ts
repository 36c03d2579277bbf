/** From words to an exit code: global flags, the way to the command, its answer or its error. */
import { type Cancel, type Clock, systemClock } from "../lib/clock.ts";
import { createLog } from "../lib/log.ts";
import { suggest } from "../lib/suggest.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import type { Runner } from "../platform/runner.ts";
import { type Answer, type Command, usageError } from "./command.ts";
import { root } from "./commands.ts";
import { type Context, type Output, startProgress } from "./context.ts";
import { type GlobalFlags, takeGlobalFlags } from "./global-flags.ts";
import { GLOBAL_NAMES } from "./global-names.ts";
import { reportError } from "./report-error.ts";
import { renderUsage } from "./usage.ts";
import { versionLine } from "./version.ts";
import type { View } from "./view.ts";

/** Everything outside that the command line touches. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly now: () => Date;
  readonly signal: AbortSignal;
  /** Opens the host (`undefined`) or a recorded machine by folder or name. */
  readonly openRunner: (machine: string | undefined) => Promise<Runner>;
  /** How this program starts itself, without its words. */
  readonly selfCommand: readonly string[];
  /** Whether this process is root's. */
  readonly root: boolean;
  /** Calls `run` whenever the configuration is to be read again (SIGHUP), until taken back. */
  readonly onReload: (run: () => void) => Cancel;
  /** Asks a person, who must be at both ends of the terminal; `undefined` when nobody answers. */
  readonly ask?: (question: string, signal: AbortSignal) => Promise<string | undefined>;
  /** For what waits; the system's unless given. */
  readonly clock?: Clock;
}

interface Found {
  readonly command: Command;
  /** How it is called: `llmgw agent inventory`. */
  readonly path: string;
  readonly words: readonly string[];
}

/** Runs one command line, without the program's name. Returns the exit code (STYLE.md, CLI); never throws. */
export async function runCli(argv: readonly string[], given: Io): Promise<number> {
  const io: Io = { ...given, stderr: forgiving(given.stderr) };
  let found: Found = { command: root, path: root.name, words: [] };
  let trace = io.env.LLMGW_LOG_LEVEL === "debug";
  try {
    const { flags, words } = takeGlobalFlags(argv, io.env);
    trace = flags.logLevel === "debug";
    if (flags.version) {
      writeAnswer(io.stdout, `${versionLine()}\n`);
      return 0;
    }
    found = await findCommand(words, (closest) => {
      found = closest;
    });
    if (flags.help) {
      writeAnswer(io.stdout, renderUsage(found.path, found.command, colorOn(io.stdout, io.env, flags)));
      return 0;
    }
    const execute = found.command.execute;
    if (execute === undefined) throw usageError("no command given", `"${found.path}" is a group of commands`, "give one of those below");
    const { answer, json } = await execute(makeContext(io, flags), found.words);
    if (answer.printed !== true) writeAnswer(io.stdout, renderAnswer(answer, json, viewOf(io, flags)));
    return answer.exitCode ?? 0;
  } catch (thrown) {
    const report = reportError(thrown, { interrupted: io.signal.aborted, trace });
    io.stderr.write(report.text);
    if (report.usage) io.stderr.write(`\n${renderUsage(found.path, found.command, false)}`);
    return report.exitCode;
  }
}

function viewOf(io: Io, flags: GlobalFlags): View {
  const size = io.stdout.isTTY ? { columns: io.stdout.columns, rows: io.stdout.rows } : { columns: undefined };
  return { color: colorOn(io.stdout, io.env, flags), ...size };
}

function renderAnswer(answer: Answer, json: boolean, view: View): string {
  if (json) return `${JSON.stringify(answer.data, undefined, 2)}\n`;
  const text = typeof answer.text === "string" ? answer.text : answer.text(view);
  return text.endsWith("\n") || text === "" ? text : `${text}\n`;
}

/** A full disk below stdout is no bug of ours, and half an answer is none. */
function writeAnswer(stdout: Output, text: string): void {
  try {
    stdout.write(text);
  } catch (cause) {
    throw new UserError(
      {
        what: "the answer could not be written to stdout",
        why: messageOf(cause),
        fix: "make room where it goes, and run the command again",
      },
      { cause },
    );
  }
}

/** Talk that cannot be written (a full disk below stderr) changes neither the answer nor the exit code, and there is nowhere to say so. */
function forgiving(stderr: Output): Output {
  return {
    isTTY: stderr.isTTY,
    get columns() {
      return stderr.columns;
    },
    write: (text) => {
      try {
        stderr.write(text);
      } catch {}
    },
  };
}

/** Follows the leading words down the table. `onWay` is told of each group passed, for the usage after a mistake. */
async function findCommand(words: readonly string[], onWay: (found: Found) => void): Promise<Found> {
  let found: Found = { command: root, path: root.name, words };
  while (Object.keys(found.command.subcommands).length > 0) {
    onWay(found);
    const [first, ...others] = found.words;
    // After `--` the next word is a command whatever it looks like, and the words after it are still no flags.
    const name = first === "--" ? others[0] : first;
    const rest = first === "--" ? [first, ...others.slice(1)] : others;
    // A group that is a command as well is meant when no other command is named.
    if (name === undefined || (found.command.execute !== undefined && first === name && name.startsWith("-"))) return found;
    const known = found.command.subcommands;
    const listed = Object.hasOwn(known, name) ? known[name] : undefined;
    if (listed === undefined) throw first === name && name.startsWith("-") ? unknownFlag(name, found) : unknownCommand(name, found);
    found = { command: await listed.load(), path: `${found.path} ${name}`, words: rest };
  }
  onWay(found);
  return found;
}

function unknownFlag(word: string, found: Found) {
  const name = word.split("=")[0] ?? word;
  const near = suggest(name, GLOBAL_NAMES);
  const fix = near === undefined ? "flags of a command stand after its name" : `did you mean ${near}?`;
  return usageError(`unknown flag ${name}`, `"${found.path}" has no such flag`, fix);
}

function unknownCommand(name: string, found: Found) {
  const near = suggest(name, Object.keys(found.command.subcommands));
  const fix = near === undefined ? "give one of those below" : `did you mean ${near}?`;
  return usageError(`unknown command "${name}"`, `"${found.path}" has no such command`, fix);
}

function makeContext(io: Io, flags: GlobalFlags): Context {
  let opened: Promise<Runner> | undefined;
  return {
    env: io.env,
    log: createLog({ level: flags.logLevel, write: (line) => io.stderr.write(line), now: io.now }),
    progress: (text) => startProgress(io.stderr, text),
    runner: () => {
      opened ??= openRunner(io, theOne(flags.machines));
      return opened;
    },
    machines: flags.machines,
    runnerOf: (machine) => openRunner(io, machine),
    print: (text) => writeAnswer(io.stdout, text),
    say: (line) => io.stderr.write(`${line}\n`),
    ask: async (question) => io.ask?.(question, io.signal),
    isTTY: io.stdout.isTTY,
    view: () => viewOf(io, flags),
    signal: io.signal,
    selfCommand: io.selfCommand,
    root: io.root,
    onReload: io.onReload,
    now: io.now,
    clock: io.clock ?? systemClock,
  };
}

/** Most commands look at one machine. */
function theOne(machines: readonly string[]): string | undefined {
  const [one, other] = machines;
  if (other !== undefined) throw usageError("--machine is given twice", `with "${one}" and "${other}"`, "leave one out");
  return one;
}

async function openRunner(io: Io, machine: string | undefined): Promise<Runner> {
  const runner = await io.openRunner(machine);
  if (runner.kind === "recorded") io.stderr.write(`llmgw: this is ${runner.label}, not this host\n`);
  return runner;
}

/** Only on a terminal, and never against NO_COLOR (no-color.org: any value that is not empty). */
function colorOn(output: Output, env: Io["env"], flags: GlobalFlags): boolean {
  return output.isTTY && flags.color && (env.NO_COLOR ?? "") === "" && env.TERM !== "dumb";
}
