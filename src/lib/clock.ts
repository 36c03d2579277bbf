/** Time as it is handed in, so that what waits can be driven by a virtual clock (test/simulation). */

/** Takes a planned call back; harmless when it has been made already. */
export type Cancel = () => void;

export interface Clock {
  /** ms since 1970. */
  nowMs(): number;
  /** Calls `run` once after `ms`. */
  after(ms: number, run: () => void): Cancel;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** Resolves after `ms`, at once when the signal is aborted. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const stop = (): void => {
      cancel();
      resolve();
    };
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener("abort", stop);
      resolve();
    });
    signal?.addEventListener("abort", stop, { once: true });
  });
}
