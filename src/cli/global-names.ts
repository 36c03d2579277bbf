/** Flags that every command takes, wherever they stand: what is written, and what it does. */
export const GLOBAL_FLAGS: readonly (readonly [string, string])[] = [
  ["--machine DIR|NAME", "look at a recorded machine instead of this host; also LLMGW_MACHINE"],
  ["--log-level LEVEL", "error, warn, info or debug; default info; also LLMGW_LOG_LEVEL"],
  ["--no-color", "no colour; also when NO_COLOR is set, or the output is no terminal"],
  ["-h, --help", "show this"],
  ["-V, --version", "show version and commit"],
];

/** Their long names, for suggestions and completion. */
export const GLOBAL_NAMES: readonly string[] = GLOBAL_FLAGS.flatMap(([written]) => /--[a-z-]+/.exec(written)?.[0] ?? []);
