/** What a command is handed. */
import type { Cancel, Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { Runner } from "../platform/runner.ts";
import type { View } from "./view.ts";

export interface Context {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  /** Says on stderr that something takes its time, once it has taken a second; only on a terminal. */
  progress(text: string): Progress;
  /** The host, or the recorded machine of `--machine`. */
  runner(): Promise<Runner>;
  /** What `--machine` and LLMGW_MACHINE name. Only `up` takes several. */
  readonly machines: readonly string[];
  /** One of them, or the host. */
  runnerOf(machine: string | undefined): Promise<Runner>;
  /** Writes to stdout before the command has ended: what is watched, and what a program says once it runs. */
  print(text: string): void;
  /** Talks to whoever started the command: a line on stderr. */
  say(line: string): void;
  /** Asks and waits for a line; `undefined` when nobody is there to answer, or on an interrupt. */
  ask(question: string): Promise<string | undefined>;
  /** Whether a person looks at stdout. */
  readonly isTTY: boolean;
  /** Asked anew for each frame: a terminal changes its width. */
  view(): View;
  /** Aborted by the first interrupt. */
  readonly signal: AbortSignal;
  /** How this program starts itself. */
  readonly selfCommand: readonly string[];
  /** Whether this process is root's. */
  readonly root: boolean;
  /** Calls `run` whenever the configuration is to be read again (SIGHUP), until taken back. */
  readonly onReload: (run: () => void) => Cancel;
  readonly now: () => Date;
  /** For what waits. */
  readonly clock: Clock;
}

export interface Progress {
  /** Takes the note away. */
  done(): void;
}

/** A place to write to, and whether a person looks at it. */
export interface Output {
  write(text: string): void;
  readonly isTTY: boolean;
  readonly columns: number | undefined;
  readonly rows?: number | undefined;
}

const NOTE_AFTER_MS = 1_000;

/** A note on one line of the terminal, with the seconds counted up, cleared when done. */
export function startProgress(stderr: Output, text: string): Progress {
  if (!stderr.isTTY) return { done: () => undefined };
  let shown = false;
  let seconds = 0;
  const show = (): void => {
    shown = true;
    seconds++;
    stderr.write(`\r\u001b[K${text} (${seconds} s)`);
  };
  const timer = setInterval(show, NOTE_AFTER_MS);
  return {
    done: () => {
      clearInterval(timer);
      if (shown) stderr.write("\r\u001b[K");
    },
  };
}
