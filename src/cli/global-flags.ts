/** Flags of every command. citty passes none of them on to subcommands, so they are taken out first, wherever they stand. Pure. */
import { LOG_LEVELS, type LogLevel } from "../lib/log.ts";
import { suggest } from "../lib/suggest.ts";
import { usageError } from "./command.ts";

export interface GlobalFlags {
  /** In the order given; what takes one only refuses several. */
  readonly machines: readonly string[];
  readonly logLevel: LogLevel;
  readonly color: boolean;
  readonly help: boolean;
  readonly version: boolean;
}

export interface TakenFlags {
  readonly flags: GlobalFlags;
  /** All other words in their order. */
  readonly words: readonly string[];
}

const SWITCHES = ["--no-color", "--help", "-h", "--version", "-V"];

/** Words after `--` are nobody's flags. Throws `UserError` for a value that is missing or not known. */
export function takeGlobalFlags(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): TakenFlags {
  const words: string[] = [];
  const values = new Map<string, string>();
  const machines: string[] = [];
  const switches = new Set<string>();
  const left = [...argv];
  for (let word = left.shift(); word !== undefined; word = left.shift()) {
    const equals = word.indexOf("=");
    const name = equals < 0 ? word : word.slice(0, equals);
    if (word === "--") {
      words.push(word, ...left.splice(0));
    } else if (name === "--machine") {
      machines.push(takeValue(name, equals < 0 ? left.shift() : word.slice(equals + 1)));
    } else if (name === "--log-level") {
      const value = takeValue(name, equals < 0 ? left.shift() : word.slice(equals + 1));
      if (values.has(name)) throw usageError(`${name} is given twice`, `with "${values.get(name)}" and "${value}"`, "leave one out");
      values.set(name, value);
    } else if (SWITCHES.includes(name)) {
      if (equals >= 0) throw usageError(`${name} takes no value`, `it was given "${word.slice(equals + 1)}"`, `write ${name} alone`);
      switches.add(name);
    } else {
      words.push(word);
    }
  }
  const help = switches.has("--help") || switches.has("-h");
  const version = switches.has("--version") || switches.has("-V");
  return {
    flags: {
      machines: machines.length > 0 ? machines : [nonEmpty(env.LLMGW_MACHINE)].filter((name) => name !== undefined),
      // Nothing is logged then, and who has a bad LLMGW_LOG_LEVEL may be looking for what it takes.
      logLevel: help || version ? "info" : logLevel(values.get("--log-level"), nonEmpty(env.LLMGW_LOG_LEVEL)),
      color: !switches.has("--no-color"),
      help,
      version,
    },
    words,
  };
}

function takeValue(name: string, value: string | undefined): string {
  const example = name === "--machine" ? "DIR or a name" : LOG_LEVELS.join("|");
  if (value === undefined || value === "" || value.startsWith("--") || SWITCHES.includes(value)) {
    throw usageError(
      `${name} needs a value`,
      value === undefined || value === "" ? "none follows it" : `"${value}" follows it, which is a flag`,
      `write ${name} ${example}`,
    );
  }
  return value;
}

function logLevel(flag: string | undefined, variable: string | undefined): LogLevel {
  const asked = flag ?? variable ?? "info";
  const level = LOG_LEVELS.find((known) => known === asked);
  if (level !== undefined) return level;
  const near = suggest(asked, LOG_LEVELS);
  const where = flag === undefined ? "LLMGW_LOG_LEVEL" : "--log-level";
  throw usageError(
    `${where} ${asked} is not known`,
    `it takes one of: ${LOG_LEVELS.join(", ")}`,
    near === undefined ? "choose one of them" : `did you mean ${near}?`,
  );
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
