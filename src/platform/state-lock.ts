/**
 * One program per state folder: a file with the pid and start time of who uses it. It falls with its process, however that ended, so
 * nobody has to tidy up after a crash.
 */
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { messageOf, UserError } from "../lib/user-error.ts";
import { bootId, isAlive, processState } from "./processes.ts";

const LockFile = v.object({ version: v.literal(1), boot_id: v.string(), pid: v.number(), start_ticks: v.number() });
type LockFile = v.InferOutput<typeof LockFile>;

export interface StateLock {
  release(): void;
}

/** Throws `UserError` naming the process that uses the folder, or what keeps the file from being written. `what`: `agent`, `server`. */
export function takeStateLock(folder: string, what: string): StateLock {
  const path = join(folder, `${what}.lock`);
  const own: LockFile = { version: 1, boot_id: bootId(), pid: process.pid, start_ticks: processState(process.pid)?.start_ticks ?? 0 };
  const beside = `${path}.${process.pid}`;
  try {
    writeFileSync(beside, JSON.stringify(own), { mode: 0o600 });
    for (let tries = 0; tries < 10; tries++) {
      if (takeName(beside, path)) return { release: () => release(path, own) };
      const holder = readLock(path);
      if (holder !== undefined && lives(holder)) throw inUse(folder, what, holder.pid);
      // Left behind by a process that is gone. Two that see this may both remove it; the name goes to one of them.
      rmSync(path, { force: true });
    }
    throw new Error(`${path} comes back each time it is removed`);
  } catch (cause) {
    if (cause instanceof UserError) throw cause;
    throw new UserError(
      {
        what: `the state folder ${folder} cannot be used`,
        why: messageOf(cause),
        fix: "check its rights and the space on its disk, or give another with --state",
      },
      { cause },
    );
  } finally {
    rmSync(beside, { force: true });
  }
}

/** A link gets the name only when nobody has it, and the content is there from the first moment on. */
function takeName(beside: string, path: string): boolean {
  try {
    linkSync(beside, path);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  }
}

function readLock(path: string): LockFile | undefined {
  try {
    const checked = v.safeParse(LockFile, JSON.parse(readFileSync(path, "utf8")));
    return checked.success ? checked.output : undefined;
  } catch {
    return undefined;
  }
}

function lives(holder: LockFile): boolean {
  return holder.boot_id === bootId() && isAlive(holder);
}

function inUse(folder: string, what: string, pid: number): UserError {
  return new UserError({
    what: `another ${what} uses ${folder}`,
    why: `process ${pid} holds ${what}.lock there`,
    fix: `stop it first (kill ${pid}), or give another folder with --state`,
  });
}

function release(path: string, own: LockFile): void {
  const holder = readLock(path);
  if (holder?.pid === own.pid && holder.start_ticks === own.start_ticks) rmSync(path, { force: true });
}
