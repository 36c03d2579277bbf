/** The completion scripts of three shells. Pure. */

/** One command with all that can follow its name. */
export interface CompletionNode {
  /** Words after `llmgw`: `agent inventory`. */
  readonly path: readonly string[];
  readonly words: readonly string[];
  readonly flags: readonly string[];
  /** Flags that a value follows. */
  readonly valueFlags: readonly string[];
  /** Those whose value is a folder. */
  readonly folderFlags: readonly string[];
  /** Those whose value is a file. */
  readonly fileFlags: readonly string[];
  /** Flag → values that it takes. */
  readonly choices: Readonly<Record<string, readonly string[]>>;
}

/** One branch of a `case`: what it matches, and what is done then. */
type Branch = readonly [pattern: string, action: string];

export function bashScript(nodes: readonly CompletionNode[]): string {
  return `# bash completion for llmgw
_llmgw() {
  local cur prev place word value
  cur=\${COMP_WORDS[COMP_CWORD]}
  prev=\${COMP_WORDS[COMP_CWORD-1]}
  # bash makes three words of --flag=value.
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  place=
  value=
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    # The value of a flag is no command, whatever it is called.
    if [[ $word == = ]]; then value=1; continue; fi
    if [[ -n $value ]]; then value=; continue; fi
    case "$word" in
      ${valueFlagsOf(nodes)}) value=1; continue ;;
    esac
    case "$place $word" in
${branches(6, placesOf(nodes))}
    esac
  done
  case "$place" in
${nodes.map((node) => offers(node, bashWords, "_llmgw_paths -d", "_llmgw_paths -f")).join("\n")}
  esac
}
# A name may hold blanks: one a line, and readline is told that they are names, so that it quotes them and puts / behind a folder.
_llmgw_paths() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}
complete -o default -F _llmgw llmgw
`;
}

function bashWords(words: readonly string[]): string {
  return `COMPREPLY=($(compgen -W "${words.join(" ")}" -- "$cur"))`;
}

/**
 * Its own script, since zsh's emulation of bash's completion reads `${name:offset:length}` as a history modifier, and `path` is the search
 * path there. Works from the fpath, where the file is the function's body, and when sourced.
 */
export function zshScript(nodes: readonly CompletionNode[]): string {
  return `#compdef llmgw
_llmgw() {
  local cur=$words[CURRENT] prev=$words[CURRENT-1] place= value= word=
  for word in "\${(@)words[2,CURRENT-1]}"; do
    # The value of a flag is no command, whatever it is called.
    if [[ -n $value ]]; then value=; continue; fi
    case "$word" in
      ${valueFlagsOf(nodes)}) value=1; continue ;;
    esac
    case "$place $word" in
${branches(6, placesOf(nodes))}
    esac
  done
  # --flag=value is one word here: the value is what is to be completed.
  if [[ $cur == --*=* ]]; then
    prev=\${cur%%=*}
    compset -P 1 '*='
  fi
  case "$place" in
${nodes.map((node) => offers(node, zshWords, "_files -/", "_files")).join("\n")}
  esac
}
if [[ "\${funcstack[1]:-}" == _llmgw ]]; then _llmgw; else compdef _llmgw llmgw; fi
`;
}

function zshWords(words: readonly string[]): string {
  return `compadd -- ${words.join(" ")}`;
}

/** What one command's place offers: after a flag its values, else words and flags. */
function offers(node: CompletionNode, offerWords: (words: readonly string[]) => string, folders: string, files: string): string {
  const afterFlag: readonly Branch[] = [
    ...(node.folderFlags.length === 0 ? [] : [[node.folderFlags.join("|"), `${folders}; return`] as const]),
    ...(node.fileFlags.length === 0 ? [] : [[node.fileFlags.join("|"), `${files}; return`] as const]),
    ...Object.entries(node.choices).map(([flag, values]) => [flag, `${offerWords(values)}; return`] as const),
  ];
  return `    "${placeOf(node.path)}")
      case "$prev" in
${branches(8, afterFlag)}
      esac
      ${offerWords([...node.words, ...node.flags])} ;;`;
}

function branches(indent: number, list: readonly Branch[]): string {
  return list.map(([pattern, action]) => `${" ".repeat(indent)}${pattern}) ${action} ;;`).join("\n");
}

/** Steps from one command's place to the next. */
function placesOf(nodes: readonly CompletionNode[]): readonly Branch[] {
  return nodes.filter((node) => node.path.length > 0).map((node) => [`"${placeOf(node.path)}"`, `place="${placeOf(node.path)}"`] as const);
}

/** A place as the scripts keep it: each word behind a blank. */
function placeOf(path: readonly string[]): string {
  return path.map((word) => ` ${word}`).join("");
}

function valueFlagsOf(nodes: readonly CompletionNode[]): string {
  return [...new Set(nodes.flatMap((node) => node.valueFlags))].join("|");
}

/** fish itself knows which words stand on the line and not where: a function follows them, as the other scripts do. */
export function fishScript(nodes: readonly CompletionNode[]): string {
  const lines = nodes.flatMap((node) => {
    const when = ` -n "__llmgw_at '${placeOf(node.path)}'"`;
    const words = node.words.length === 0 ? [] : [`complete -c llmgw -f${when} -a '${node.words.join(" ")}'`];
    return [...words, ...node.flags.map((flag) => `complete -c llmgw${when} -l ${flag.slice(2)}${fishValue(node, flag)}`)];
  });
  const places = nodes.filter((node) => node.path.length > 0).map((node) => `'${placeOf(node.path)}'`);
  return `# fish completion for llmgw
function __llmgw_at
  set -l place ''
  set -l value ''
  for word in (commandline -opc)[2..-1]
    # The value of a flag is no command, whatever it is called.
    if test -n "$value"
      set value ''
      continue
    end
    switch $word
      case ${valueFlagsOf(nodes).replaceAll("|", " ")}
        set value 1
        continue
    end
    switch "$place $word"
      case ${places.join(" ")}
        set place "$place $word"
    end
  end
  test "$place" = "$argv[1]"
end
${lines.join("\n")}
`;
}

function fishValue(node: CompletionNode, flag: string): string {
  const values = node.choices[flag];
  if (values !== undefined) return ` -x -a '${values.join(" ")}'`;
  if (node.folderFlags.includes(flag)) return " -x -a '(__fish_complete_directories)'";
  if (node.fileFlags.includes(flag)) return " -r -F";
  return node.valueFlags.includes(flag) ? " -x" : "";
}
