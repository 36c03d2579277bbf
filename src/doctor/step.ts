/** One step of collecting: its limit, and what its failure becomes. */
import { UserError } from "../lib/user-error.ts";
import { RunnerError } from "../platform/runner.ts";
import type { Read } from "./facts.ts";

/** The edge of one step: a refusal or a limit passed becomes a reason. So does asking a recording for what it does not hold. */
export async function step<T>(name: string, limitMs: number, look: () => Promise<T | undefined>): Promise<Read<T>> {
  try {
    return await inTime(
      look().then((value): Read<T> => (value === undefined ? { kind: "absent" } : { kind: "read", value })),
      limitMs,
      (): Read<T> => ({ kind: "refused", why: `${name} did not answer within ${limitMs / 1000} s` }),
    );
  } catch (error) {
    // A recording made before doctor asked for this: not known, which is neither absent nor well.
    if (error instanceof UserError) return { kind: "refused", why: `this recording does not hold it: ${name}` };
    if (!(error instanceof RunnerError) || error.kind === "aborted") throw error;
    return { kind: "refused", why: error.kind === "denied" ? `needs root: ${name}` : error.message };
  }
}

/** The answer, or something else at the limit; what still runs then is not waited for. */
export async function inTime<T>(work: Promise<T>, limitMs: number, late: () => T): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<T>((resolve) => {
    timer = setTimeout(() => resolve(late()), limitMs);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}
