/** Usage text of a command, made from its definition. Pure. */
import { type Painter, painter } from "../lib/color.ts";
import type { Command, Flag, Positional } from "./command.ts";
import { GLOBAL_FLAGS } from "./global-names.ts";

/** `path` is how the command is called: `llmgw agent inventory`. Ends with a newline. */
export function renderUsage(path: string, command: Command, color: boolean): string {
  const paint = painter(color);
  const subcommands = Object.entries(command.subcommands).filter(([, listed]) => listed.hidden !== true);
  const words = [
    path,
    ...(subcommands.length > 0 ? [command.execute === undefined ? "COMMAND" : "[COMMAND]"] : []),
    ...(Object.keys(command.flags).length > 0 ? ["[FLAGS]"] : []),
    ...command.positionals.map(positionalWord),
  ];
  const sections = [
    command.description === undefined ? command.summary : `${command.summary}\n${command.description}`,
    `${paint.bold("Usage:")} ${words.join(" ")}`,
    section(
      paint,
      "Commands:",
      subcommands.map(([name, listed]) => [name, listed.summary]),
    ),
    section(
      paint,
      "Arguments:",
      command.positionals.map((positional) => [positionalWord(positional), positional.summary]),
    ),
    section(
      paint,
      "Flags:",
      Object.entries(command.flags).map(([name, flag]) => [flagWord(name, flag), flag.summary]),
    ),
    section(paint, "Flags of every command:", GLOBAL_FLAGS),
    command.examples.length === 0 ? "" : [paint.bold("Examples:"), ...command.examples.map((example) => `  ${example}`)].join("\n"),
  ];
  return `${sections.filter((text) => text !== "").join("\n\n")}\n`;
}

function section(paint: Painter, title: string, rows: readonly (readonly [string, string])[]): string {
  if (rows.length === 0) return "";
  const width = Math.max(...rows.map(([left]) => left.length));
  return [paint.bold(title), ...rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)].join("\n");
}

function flagWord(name: string, flag: Flag): string {
  switch (flag.kind) {
    case "boolean":
      return flag.negatable === true ? `--[no-]${name}` : `--${name}`;
    case "string":
      return `--${name} ${flag.hint ?? "VALUE"}${flag.multiple === true ? "…" : ""}`;
    case "choice":
      return `--${name} ${flag.choices.join("|")}`;
    default:
      return flag satisfies never;
  }
}

function positionalWord(positional: Positional): string {
  const word = positional.choices?.join("|") ?? positional.name;
  return positional.required === true ? word : `[${word}]`;
}
