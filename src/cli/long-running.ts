/** What commands share that run until they are told to end. */

import { systemClock } from "../lib/clock.ts";
import { hostRoundLock } from "../platform/host-lock.ts";
import { createNvmlClient } from "../platform/nvml-client.ts";
import type { Runner } from "../platform/runner.ts";
import type { Context } from "./context.ts";
import { VERSION } from "./version.ts";

/** Good chance for secrets. */
export function randomBytes(bytes: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(bytes));
}

/** What every program that runs on is handed from outside. */
export function surroundings(ctx: Pick<Context, "env" | "log">) {
  return { clock: systemClock, chance: Math.random, random: randomBytes, log: ctx.log, version: VERSION, env: ctx.env };
}

/** Resolves when the program is told to end. */
export function untilStopped({ signal }: Context): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

export interface OpenLibrary {
  readonly runner: Runner;
  stop(): Promise<void>;
}

/** A host whose NVML library stays open in one child, for looks every few seconds; a recorded machine as it is. */
export function withOpenLibrary(runner: Runner, ctx: Pick<Context, "env" | "selfCommand">): OpenLibrary {
  if (runner.kind !== "host") return { runner, stop: async () => undefined };
  const client = createNvmlClient({
    probe: [...ctx.selfCommand, "nvml-probe"],
    env: ctx.env,
    roundLock: hostRoundLock(ctx.env),
    jitter: Math.random,
  });
  return { runner: { ...runner, nvml: () => client.snapshot() }, stop: () => client.stop() };
}
