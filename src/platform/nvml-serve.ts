/** The long-lived probe: one answer for each line that arrives, until the input ends, which is also when whoever started it is gone. */
import { createInterface } from "node:readline";
import { type NvmlSession, openNvml } from "./nvml-ffi.ts";
import type { NvmlReply } from "./nvml-snapshot.ts";

export interface ServeOptions {
  readonly library: string | undefined;
  readonly signal: AbortSignal;
}

export async function serveNvml(options: ServeOptions): Promise<void> {
  let session: NvmlSession | undefined;
  const answer = (): NvmlReply => {
    if (session === undefined) {
      // A driver that is installed later is found later.
      const opened = openNvml(options.library);
      if (opened.kind !== "opened") return opened;
      session = opened.session;
    }
    return session.snapshot(true);
  };
  const lines = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
  options.signal.addEventListener("abort", () => lines.close(), { once: true });
  try {
    for await (const _line of lines) {
      await new Promise<void>((resolve) => process.stdout.write(`${JSON.stringify(answer())}\n`, () => resolve()));
    }
  } finally {
    session?.close();
  }
}
