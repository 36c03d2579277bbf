/** A failure that a person can mend. `cli/run.ts` prints it as three lines; the exit code is 2 unless the command says otherwise. */
export interface Explanation {
  /** What happened, with the offending value and its place. */
  readonly what: string;
  /** Why we think so. */
  readonly why: string;
  /** The next thing to do, best a command to paste. */
  readonly fix: string;
}

/**
 * Thrown where a person must act (STYLE.md, errors). Everything else that is thrown is a bug of ours and exits with 70.
 * `exitCode` is 2 (usage or configuration) unless given.
 */
export class UserError extends Error {
  override readonly name = "UserError";
  readonly what: string;
  readonly why: string;
  readonly fix: string;
  readonly exitCode: 1 | 2;
  /** Usage of the command is printed after the message, on stderr. */
  readonly usage: boolean;

  constructor(explanation: Explanation, options: { readonly cause?: unknown; readonly exitCode?: 1 | 2; readonly usage?: boolean } = {}) {
    super(explanation.what, options.cause === undefined ? undefined : { cause: options.cause });
    this.what = explanation.what;
    this.why = explanation.why;
    this.fix = explanation.fix;
    this.exitCode = options.exitCode ?? 2;
    this.usage = options.usage ?? false;
  }
}

/** The message of anything that was thrown, on one line. */
export function messageOf(thrown: unknown): string {
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return text.replace(/\s*\n\s*/g, " ").trim();
}
