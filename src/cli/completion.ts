/** `llmgw completion bash|zsh|fish`: scripts made from the table of commands, so that they cannot forget one. */
import { LOG_LEVELS } from "../lib/log.ts";
import { type Command, defineCommand, writtenFlags } from "./command.ts";
import { GLOBAL_NAMES } from "./global-names.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

/** The command, for the table that `root` gives: handed in, since the table itself lists this command. */
export const completionOf = (root: Command): Command =>
  defineCommand({
    name: "completion",
    summary: "completion script for bash, zsh or fish",
    positionals: [{ name: "SHELL", summary: "the shell to write it for", required: true, choices: SHELLS }],
    examples: ["llmgw completion bash > /etc/bash_completion.d/llmgw", "llmgw completion fish > ~/.config/fish/completions/llmgw.fish"],
    run: async (_context, _args, [shell]) => {
      const nodes = await flatten(root, []);
      const text = shell === "zsh" ? zshScript(nodes) : shell === "fish" ? fishScript(nodes) : bashScript(nodes);
      return { data: { shell, script: text }, text };
    },
  });

/** One command with all that can follow its name. */
interface Node {
  /** Words after `llmgw`: `agent inventory`. */
  readonly path: readonly string[];
  readonly words: readonly string[];
  readonly flags: readonly string[];
  /** Flags that a value follows. */
  readonly valueFlags: readonly string[];
  /** Those whose value is a file or folder. */
  readonly pathFlags: readonly string[];
  /** Flag → values that it takes. */
  readonly choices: Readonly<Record<string, readonly string[]>>;
}

async function flatten(command: Command, path: readonly string[]): Promise<readonly Node[]> {
  const listed = Object.entries(command.subcommands).filter(([, entry]) => entry.hidden !== true);
  const own: Node = {
    path,
    words: [...listed.map(([name]) => name), ...(command.positionals[0]?.choices ?? [])],
    flags: [...writtenFlags(command.flags), ...GLOBAL_NAMES],
    valueFlags: [
      "--machine",
      "--log-level",
      ...Object.entries(command.flags).flatMap(([name, flag]) => (flag.kind === "boolean" ? [] : [`--${name}`])),
    ],
    pathFlags: [
      "--machine",
      ...Object.entries(command.flags).flatMap(([name, flag]) =>
        flag.kind === "string" && /^(DIR|PATH|FILE)/.test(flag.hint ?? "") ? [`--${name}`] : [],
      ),
    ],
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

function bashScript(nodes: readonly Node[]): string {
  return `# bash completion for llmgw
_llmgw() {
  local cur prev path word value
  cur=\${COMP_WORDS[COMP_CWORD]}
  prev=\${COMP_WORDS[COMP_CWORD-1]}
  # bash makes three words of --flag=value.
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  path=
  value=
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    # The value of a flag is no command, whatever it is called.
    if [[ $word == = ]]; then value=1; continue; fi
    if [[ -n $value ]]; then value=; continue; fi
    case "$word" in
      ${[...new Set(nodes.flatMap((node) => node.valueFlags))].join("|")}) value=1; continue ;;
    esac
    case "$path $word" in
${nodes
  .filter((node) => node.path.length > 0)
  .map(
    (node) =>
      `      "${[...node.path.slice(0, -1)].map((word) => ` ${word}`).join("")} ${node.path.at(-1) ?? ""}") path="${node.path.map((word) => ` ${word}`).join("")}" ;;`,
  )
  .join("\n")}
    esac
  done
  case "$path" in
${nodes.map(bashCase).join("\n")}
  esac
}
complete -o default -F _llmgw llmgw
`;
}

function bashCase(node: Node): string {
  const choices = Object.entries(node.choices).map(
    ([flag, values]) => `        ${flag}) COMPREPLY=($(compgen -W "${values.join(" ")}" -- "$cur")); return ;;`,
  );
  return `    "${node.path.map((word) => ` ${word}`).join("")}")
      case "$prev" in
        ${node.pathFlags.join("|")}) COMPREPLY=($(compgen -f -- "$cur")); return ;;
${choices.join("\n")}
      esac
      COMPREPLY=($(compgen -W "${[...node.words, ...node.flags].join(" ")}" -- "$cur")) ;;`;
}

/** zsh runs bash's function through its own emulation of compgen. */
function zshScript(nodes: readonly Node[]): string {
  return `#compdef llmgw
autoload -U +X bashcompinit && bashcompinit
${bashScript(nodes)}`;
}

function fishScript(nodes: readonly Node[]): string {
  const lines = nodes.flatMap((node) => {
    const deeper = nodes
      .filter((other) => other.path.length === node.path.length + 1 && node.path.every((word, at) => other.path[at] === word))
      .map((other) => other.path.at(-1) ?? "");
    const conditions = [
      ...node.path.map((word) => `__fish_seen_subcommand_from ${word}`),
      ...(deeper.length === 0 ? [] : [`not __fish_seen_subcommand_from ${deeper.join(" ")}`]),
    ];
    const when = conditions.length === 0 ? "" : ` -n '${conditions.join("; and ")}'`;
    const words = node.words.length === 0 ? [] : [`complete -c llmgw -f${when} -a '${node.words.join(" ")}'`];
    const flags = node.flags.map((flag) => {
      const values = node.choices[flag];
      const value = values !== undefined ? ` -x -a '${values.join(" ")}'` : node.pathFlags.includes(flag) ? " -r -F" : "";
      return `complete -c llmgw${when} -l ${flag.slice(2)}${value}`;
    });
    return [...words, ...flags];
  });
  return `# fish completion for llmgw\n${lines.join("\n")}\n`;
}
