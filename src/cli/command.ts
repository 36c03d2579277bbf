/**
 * What a command is, and the one file that knows citty. citty parses values; what it lets pass without a word (unknown flags, stray
 * arguments, a flag without its value, a flag given twice) is checked here first and becomes a usage error with a suggestion.
 */
import { type ArgsDef, parseArgs } from "citty";
import { suggest } from "../lib/suggest.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import type { Context } from "./context.ts";
import { GLOBAL_NAMES } from "./global-names.ts";
import type { View } from "./view.ts";

interface FlagText {
  /** What it does, for the usage text. */
  readonly summary: string;
}

/** A flag. `negatable`: also `--no-NAME`. `hint` names the value in the usage text. `multiple`: may be repeated. */
export type Flag =
  | (FlagText & { readonly kind: "boolean"; readonly negatable?: boolean })
  | (FlagText & { readonly kind: "string"; readonly hint?: string; readonly multiple?: boolean })
  | (FlagText & { readonly kind: "choice"; readonly choices: readonly string[] });

export type Flags = Readonly<Record<string, Flag>>;

export interface Positional {
  readonly name: string;
  readonly summary: string;
  readonly required?: boolean;
  readonly choices?: readonly string[];
}

type FlagValue<F extends Flag> = F extends { readonly kind: "boolean" }
  ? boolean
  : F extends { readonly multiple: true }
    ? readonly string[]
    : F extends { readonly choices: readonly (infer Choice)[] }
      ? Choice
      : string;

/** Values by flag name; a flag that was not given is `undefined`. */
export type FlagValues<F extends Flags> = { readonly [Name in keyof F]: FlagValue<F[Name]> | undefined };

/** What a command returns: its data, and the same as text. `--json` prints the data. */
export interface Answer {
  readonly data: unknown;
  readonly text: string | ((view: View) => string);
  /** 1 when the answer is no; 2 and 3 only for the convention of monitoring agents (`doctor --monitor`). Default 0. */
  readonly exitCode?: 0 | 1 | 2 | 3;
  /** All of it was printed while the command ran; nothing is at its end. */
  readonly printed?: boolean;
}

/** A subcommand as its parent lists it; the module is loaded when it is asked for. */
export interface Listed {
  readonly summary: string;
  readonly hidden?: boolean;
  readonly load: () => Promise<Command>;
}

/** A command or a group of them, with its types erased. */
export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly description?: string;
  readonly flags: Flags;
  readonly positionals: readonly Positional[];
  readonly subcommands: Readonly<Record<string, Listed>>;
  readonly examples: readonly string[];
  /** `undefined` for a group. Parses its own words; throws `UserError` with `usage` for a mistake in them. */
  readonly execute: ((context: Context, words: readonly string[]) => Promise<Executed>) | undefined;
}

export interface Executed {
  readonly answer: Answer;
  readonly json: boolean;
}

export interface CommandDefinition<F extends Flags> {
  readonly name: string;
  readonly summary: string;
  readonly description?: string;
  readonly flags?: F;
  readonly positionals?: readonly Positional[];
  /** A command may be a group as well: `llmgw agent` runs, `llmgw agent inventory` is another command. It takes no positionals then. */
  readonly subcommands?: Readonly<Record<string, Listed>>;
  readonly examples?: readonly string[];
  readonly run: (context: Context, args: FlagValues<F>, positionals: readonly string[]) => Promise<Answer>;
}

export function defineCommand<const F extends Flags>(definition: CommandDefinition<F>): Command {
  const flags: Flags = definition.flags ?? {};
  const positionals = definition.positionals ?? [];
  return {
    name: definition.name,
    summary: definition.summary,
    ...(definition.description === undefined ? {} : { description: definition.description }),
    flags,
    positionals,
    subcommands: definition.subcommands ?? {},
    examples: definition.examples ?? [],
    execute: async (context, words) => {
      const parsed = parseWords(flags, positionals, words);
      // parseWords fills exactly the declared flags with values of their kind, which is what FlagValues says.
      const args = parsed.values as FlagValues<F>;
      return { answer: await definition.run(context, args, parsed.positionals), json: parsed.values.json === true };
    },
  };
}

export function defineGroup(group: {
  readonly name: string;
  readonly summary: string;
  readonly subcommands: Readonly<Record<string, Listed>>;
}): Command {
  return { ...group, flags: {}, positionals: [], examples: [], execute: undefined };
}

interface ParsedWords {
  readonly values: Readonly<Record<string, boolean | string | readonly string[] | undefined>>;
  readonly positionals: readonly string[];
}

/** Checks words against what is declared, then has citty parse them. Throws `UserError` with `usage`. */
export function parseWords(flags: Flags, positionals: readonly Positional[], words: readonly string[]): ParsedWords {
  const checked = checkWords(flags, positionals, words);
  const parsed = cittyParse(flags, checked.flagWords);
  const values = Object.entries(flags).map(([name, flag]) => {
    if (flag.kind === "string" && flag.multiple === true) return [name, checked.given.get(name)];
    // citty reads `--no-gpu` as `gpu` turned off, so a flag whose own name starts with "no-" is looked up there.
    const value = name.startsWith("no-")
      ? parsed[name.slice(3)] === false
        ? true
        : undefined
      : checked.given.has(name)
        ? parsed[name]
        : undefined;
    return [name, typeof value === "string" || typeof value === "boolean" ? value : undefined];
  });
  return { values: Object.fromEntries(values), positionals: checked.positionals };
}

function cittyParse(flags: Flags, words: readonly string[]): Readonly<Record<string, unknown>> {
  const definitions: ArgsDef = {};
  for (const [name, flag] of Object.entries(flags)) {
    const key = name.startsWith("no-") ? name.slice(3) : name;
    if (flag.kind === "choice") definitions[key] = { type: "enum", options: [...flag.choices] };
    else definitions[key] = { type: flag.kind };
  }
  try {
    return parseArgs([...words], definitions);
  } catch (error) {
    throw usageError(messageOf(error), "the value is not one of those that are known", "see the usage below");
  }
}

interface CheckedWords {
  readonly flagWords: readonly string[];
  readonly positionals: readonly string[];
  /** Values of each flag in the order given; an empty list for a boolean one. */
  readonly given: ReadonlyMap<string, readonly string[]>;
}

function checkWords(flags: Flags, positionals: readonly Positional[], words: readonly string[]): CheckedWords {
  const given = new Map<string, readonly string[]>();
  const flagWords: string[] = [];
  const rest: string[] = [];
  const left = [...words];
  for (let word = left.shift(); word !== undefined; word = left.shift()) {
    if (word === "--") {
      rest.push(...left.splice(0));
    } else if (!word.startsWith("-") || word === "-") {
      rest.push(word);
    } else {
      flagWords.push(...takeFlag(flags, word, left, given));
    }
  }
  checkPositionals(positionals, rest);
  return { flagWords, positionals: rest, given };
}

/** One flag with its value, as citty takes it. */
function takeFlag(flags: Flags, word: string, left: string[], given: Map<string, readonly string[]>): readonly string[] {
  const equals = word.indexOf("=");
  const written = equals < 0 ? word : word.slice(0, equals);
  const found = findFlag(flags, written);
  if (found === undefined) throw unknownFlag(flags, written);
  const { name, flag } = found;
  if (flag.kind === "boolean") {
    if (equals >= 0) throw usageError(`${written} takes no value`, `it was given "${word.slice(equals + 1)}"`, `write ${written} alone`);
    if (given.has(name)) throw usageError(`${written} is given twice`, "it counts once", "leave one out");
    given.set(name, []);
    return [written];
  }
  const value = equals >= 0 ? word.slice(equals + 1) : left.shift();
  if (value === undefined || value === "" || (equals < 0 && value.startsWith("--"))) {
    const example = flag.kind === "choice" ? flag.choices.join("|") : (flag.hint ?? "VALUE");
    throw usageError(
      `${written} needs a value`,
      value === undefined || value === "" ? "none follows it" : `"${value}" follows it, which is a flag`,
      `write ${written} ${example}`,
    );
  }
  const before = given.get(name);
  if (before !== undefined && !(flag.kind === "string" && flag.multiple === true)) {
    throw usageError(`${written} is given twice`, `with "${before.join('", "')}" and "${value}"`, "leave one out");
  }
  if (flag.kind === "choice" && !flag.choices.includes(value)) {
    const near = suggest(value, flag.choices);
    throw usageError(
      `${written} ${value} is not known`,
      `it takes one of: ${flag.choices.join(", ")}`,
      near === undefined ? "choose one of them" : `did you mean ${near}?`,
    );
  }
  given.set(name, [...(before ?? []), value]);
  return [`--${name}=${value}`];
}

function findFlag(flags: Flags, written: string): { readonly name: string; readonly flag: Flag } | undefined {
  const name = written.startsWith("--") ? written.slice(2) : "";
  const direct = Object.hasOwn(flags, name) ? flags[name] : undefined;
  if (direct !== undefined) return { name, flag: direct };
  const positive = name.startsWith("no-") ? name.slice(3) : "";
  const negated = Object.hasOwn(flags, positive) ? flags[positive] : undefined;
  return negated?.kind === "boolean" && negated.negatable === true ? { name: positive, flag: negated } : undefined;
}

/** Flags as they can be written, global ones left to the caller. */
export function writtenFlags(flags: Flags): readonly string[] {
  return Object.entries(flags).flatMap(([name, flag]) =>
    flag.kind === "boolean" && flag.negatable === true ? [`--${name}`, `--no-${name}`] : [`--${name}`],
  );
}

function unknownFlag(flags: Flags, written: string): UserError {
  const near = suggest(written, [...writtenFlags(flags), ...GLOBAL_NAMES]);
  return usageError(
    `unknown flag ${written}`,
    "this command has no such flag",
    near === undefined ? "see the usage below" : `did you mean ${near}?`,
  );
}

function checkPositionals(positionals: readonly Positional[], words: readonly string[]): void {
  const stray = words[positionals.length];
  if (stray !== undefined) {
    throw usageError(
      `stray argument "${stray}"`,
      positionals.length === 0 ? "this command takes no arguments" : `this command takes ${positionals.length}`,
      "leave it out",
    );
  }
  for (const [at, positional] of positionals.entries()) {
    const word = words[at];
    if (word === undefined && positional.required === true) {
      throw usageError(
        `${positional.name} is missing`,
        positional.summary,
        `give ${(positional.choices ?? [positional.name]).join(" or ")}`,
      );
    }
    if (word !== undefined && positional.choices?.includes(word) === false) {
      const near = suggest(word, positional.choices);
      throw usageError(
        `"${word}" is not known here`,
        `${positional.name} is one of: ${positional.choices.join(", ")}`,
        near === undefined ? "choose one of them" : `did you mean ${near}?`,
      );
    }
  }
}

export function usageError(what: string, why: string, fix: string): UserError {
  return new UserError({ what, why, fix }, { usage: true });
}
