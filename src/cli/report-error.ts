/** The one place that turns what was thrown into text and an exit code. Pure. */
import { messageOf, UserError } from "../lib/user-error.ts";
import { RunnerError } from "../platform/runner.ts";

export interface ErrorReport {
  readonly text: string;
  readonly exitCode: 1 | 2 | 70 | 130;
  /** Show how the command is used after it. */
  readonly usage: boolean;
}

/** `interrupted`: the person pressed Ctrl-C, so whatever was thrown is a consequence of it. `trace`: show where a bug was thrown. */
export function reportError(thrown: unknown, options: { readonly interrupted: boolean; readonly trace: boolean }): ErrorReport {
  if (options.interrupted || (thrown instanceof RunnerError && thrown.kind === "aborted")) {
    return { text: "llmgw: interrupted\n", exitCode: 130, usage: false };
  }
  if (thrown instanceof UserError) {
    return { text: `llmgw: ${thrown.what}\n  why: ${thrown.why}\n  fix: ${thrown.fix}\n`, exitCode: thrown.exitCode, usage: thrown.usage };
  }
  const stack = options.trace && thrown instanceof Error && thrown.stack !== undefined ? `${thrown.stack}\n` : "";
  return {
    text: `llmgw: ${messageOf(thrown)}\n  why: this is a bug in llmgw\n  fix: report it with the output of the same command and --log-level debug\n${stack}`,
    exitCode: 70,
    usage: false,
  };
}
