/** `llmgw completion bash|zsh|fish`: scripts made from the table of commands, so that they cannot forget one. */
import { LOG_LEVELS } from "../lib/log.ts";
import { type Command, defineCommand, type Flags, writtenFlags } from "./command.ts";
import { bashScript, type CompletionNode, fishScript, zshScript } from "./completion-scripts.ts";
import { GLOBAL_NAMES } from "./global-names.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

/** The command, for the table that `root` gives: handed in, since the table itself lists this command. */
export const completionOf = (root: Command): Command =>
  defineCommand({
    name: "completion",
    summary: "completion script for bash, zsh or fish",
    flags: { json: { kind: "boolean", summary: "print shell and script as data" } },
    positionals: [{ name: "SHELL", summary: "the shell to write it for", required: true, choices: SHELLS }],
    examples: ["llmgw completion bash > /etc/bash_completion.d/llmgw", "llmgw completion fish > ~/.config/fish/completions/llmgw.fish"],
    run: async (_context, _args, [shell]) => {
      const nodes = await flatten(root, []);
      const text = shell === "zsh" ? zshScript(nodes) : shell === "fish" ? fishScript(nodes) : bashScript(nodes);
      return { data: { shell, script: text }, text };
    },
  });

async function flatten(command: Command, path: readonly string[]): Promise<readonly CompletionNode[]> {
  const listed = Object.entries(command.subcommands).filter(([, entry]) => entry.hidden !== true);
  const own: CompletionNode = {
    path,
    words: [...listed.map(([name]) => name), ...(command.positionals[0]?.choices ?? [])],
    flags: [...writtenFlags(command.flags), ...GLOBAL_NAMES],
    valueFlags: [
      "--machine",
      "--log-level",
      ...Object.entries(command.flags).flatMap(([name, flag]) => (flag.kind === "boolean" ? [] : [`--${name}`])),
    ],
    // --machine takes the name of a recorded machine too; those that come with the program are few and soon known.
    folderFlags: ["--machine", ...hinted(command.flags, /^DIR/)],
    fileFlags: hinted(command.flags, /^(PATH|FILE)/),
    choices: {
      "--log-level": LOG_LEVELS,
      ...Object.fromEntries(
        Object.entries(command.flags).flatMap(([name, flag]) => (flag.kind === "choice" ? [[`--${name}`, flag.choices]] : [])),
      ),
    },
  };
  const below = await Promise.all(listed.map(async ([name, entry]) => flatten(await entry.load(), [...path, name])));
  return [own, ...below.flat()];
}

/** String flags whose value is named so. */
function hinted(flags: Flags, hint: RegExp): readonly string[] {
  return Object.entries(flags).flatMap(([name, flag]) => (flag.kind === "string" && hint.test(flag.hint ?? "") ? [`--${name}`] : []));
}
