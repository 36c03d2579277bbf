/** Writing to stdout and stderr, whole and at once: nothing is left in a buffer when the process ends. */
import { fstatSync, writeSync } from "node:fs";

export interface TerminalOutput {
  write(text: string): void;
  readonly isTTY: boolean;
  readonly columns: number | undefined;
  readonly rows: number | undefined;
}

/**
 * `onGone` is called when the reader has left (`llmgw … | head`). A stream object would do the same later and cost 5 ms of the start; it
 * is made only for the width of a terminal.
 */
export function openOutput(fd: 1 | 2, onGone: () => void): TerminalOutput {
  const isTTY = isTerminal(fd);
  return {
    write: (text) => writeAll(fd, Buffer.from(text), onGone),
    isTTY,
    get columns() {
      return isTTY ? (fd === 1 ? process.stdout : process.stderr).columns : undefined;
    },
    get rows() {
      return isTTY ? (fd === 1 ? process.stdout : process.stderr).rows : undefined;
    },
  };
}

/**
 * Asks on stderr and waits for one line, without its end. `undefined` when stdin or stderr is no terminal: then nobody sees the question,
 * or a program would answer it. Also when the input ends or the signal is aborted.
 */
export async function askLine(question: string, signal: AbortSignal): Promise<string | undefined> {
  if (!isTerminal(0) || !isTerminal(2) || signal.aborted) return undefined;
  writeAll(2, Buffer.from(question), () => undefined);
  const { stdin } = process;
  return new Promise((resolve) => {
    const done = (answer: string | undefined): void => {
      signal.removeEventListener("abort", stop);
      stdin.removeAllListeners("data");
      stdin.pause();
      resolve(answer);
    };
    const stop = (): void => done(undefined);
    signal.addEventListener("abort", stop, { once: true });
    // The terminal hands over whole lines.
    stdin.once("data", (chunk) => done(String(chunk).split("\n")[0]?.trim()));
    stdin.once("end", stop);
  });
}

const DEV_NULL = 0x103;

/** node:tty is only loaded for a character device that is not /dev/null: it brings all of node's streams along. */
function isTerminal(fd: number): boolean {
  const found = fstatSync(fd);
  return found.isCharacterDevice() && found.rdev !== DEV_NULL && process.getBuiltinModule("node:tty").isatty(fd);
}

/** A pipe takes 64 KiB at a time; one that its reader made non-blocking says EAGAIN when it is full. */
function writeAll(fd: number, bytes: Uint8Array, onGone: () => void): void {
  let at = 0;
  while (at < bytes.length) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code === "EPIPE") {
        onGone();
        return;
      }
      if (code !== "EAGAIN") throw error;
      Bun.sleepSync(1);
    }
  }
}
