/**
 * One round of driver queries at a time on a node, for inventory, doctor and agent together (DESIGN.md, section 3, rule 2).
 *
 * A round is the commands that one llmgw process runs side by side. A query that outlives its limit and cannot be killed stays in
 * the lock file with pid and start time; while it lives, nobody starts another: each would hang as well and hold the driver longer.
 *
 * The file is `driver-round.json` in the first folder that can be written: `/run/llmgw` for root and the service user, else
 * `/tmp/llmgw-UID`. Everyone reads `/run/llmgw`. Other users' folders under /tmp count only when their process really is in
 * uninterruptible sleep, so that a stranger's file cannot stop the agent.
 */
import {
  closeSync,
  constants,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { bootId, groupLives, isAlive, type ProcessIdentity, processState } from "./processes.ts";
import { RunnerError } from "./runner.ts";

const FILE = "driver-round.json";
const Identity = v.object({ pid: v.pipe(v.number(), v.integer(), v.minValue(1)), start_ticks: v.number() });
const RoundFile = v.object({
  version: v.literal(1),
  boot_id: v.string(),
  holder: Identity,
  /** False when the round is over and only the processes that would not end are left. */
  active: v.boolean(),
  started_at_ms: v.number(),
  children: v.array(Identity),
});
type RoundFile = v.InferOutput<typeof RoundFile>;

/** What a lock file means for somebody who wants to start a round. */
type Verdict = { readonly kind: "free" } | { readonly kind: "wait" } | { readonly kind: "stuck"; readonly pid: number };

export interface RoundLockOptions {
  /** Folders to try in order; the first that can be written is used. */
  readonly folders: readonly string[];
  /** Parent of other users' folders, looked through for processes in uninterruptible sleep. */
  readonly othersIn?: string | undefined;
  /** How long a running round of another process is waited for. Its own limits end it before that. */
  readonly waitMs?: number;
}

/** A round that this process holds. */
export interface Round {
  add(pid: number): void;
  /** Ends the round; processes that still live stay on record. */
  end(): void;
}

/** Takes the lock, or throws `RunnerError` "busy" naming the process that hangs. Without any folder to write it goes on unlocked. */
export async function takeRound(options: RoundLockOptions): Promise<Round> {
  const stranger = options.othersIn === undefined ? undefined : strangerStuck(options.othersIn);
  if (stranger !== undefined) throw stuckError(stranger);
  const deadline = Date.now() + (options.waitMs ?? 15_000);
  for (const folder of options.folders) {
    for (;;) {
      const taken = tryTake(folder);
      if (taken === undefined) break;
      if (taken.kind === "taken") return taken.round;
      if (taken.verdict.kind === "stuck") throw stuckError(taken.verdict.pid);
      if (Date.now() > deadline) throw new RunnerError("busy", "another llmgw process has been asking the driver for too long");
      await Bun.sleep(20);
    }
  }
  return { add: () => undefined, end: () => undefined };
}

function stuckError(pid: number): RunnerError {
  return new RunnerError("busy", `not asked: process ${pid} of an earlier query still hangs in the driver`, { pid });
}

type Attempt =
  | { readonly kind: "taken"; readonly round: Round }
  | { readonly kind: "held"; readonly verdict: Exclude<Verdict, { kind: "free" }> };

/** `undefined` when the folder cannot be written and holds no round either. */
function tryTake(folder: string): Attempt | undefined {
  const path = join(folder, FILE);
  const found = readRound(path);
  if (found !== undefined) {
    const verdict = judge(found);
    if (verdict.kind !== "free") return { kind: "held", verdict };
    if (!removeStale(path, found)) return { kind: "held", verdict: { kind: "wait" } };
  }
  const own = processState(process.pid);
  const file: RoundFile = {
    version: 1,
    boot_id: bootId(),
    holder: { pid: process.pid, start_ticks: own?.start_ticks ?? 0 },
    active: true,
    started_at_ms: Date.now(),
    children: [],
  };
  try {
    mkdirSync(folder, { recursive: true, mode: folder.startsWith("/run/") ? 0o755 : 0o700 });
    // A folder under /tmp may have been planted by somebody else.
    if (folder.startsWith("/tmp/") && lstatSync(folder).uid !== process.getuid?.()) return undefined;
    if (nameOnce(path, JSON.stringify(file))) return { kind: "taken", round: heldRound(path, file) };
  } catch {
    return undefined;
  }
  // Taken in this moment, or something that no llmgw wrote: a lock has its content from the first moment on.
  if (isForeign(path)) rmSync(path, { force: true });
  return { kind: "held", verdict: { kind: "wait" } };
}

/** Gives a file its name together with its content, unless somebody has the name: nobody ever reads half of it. */
function nameOnce(path: string, content: string): boolean {
  const beside = `${path}.${process.pid}.new`;
  rmSync(beside, { force: true });
  const fd = openSync(beside, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW, 0o644);
  try {
    writeSync(fd, content);
    linkSync(beside, path);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  } finally {
    closeSync(fd);
    rmSync(beside, { force: true });
  }
}

/** Not ours to read, and not that of a newer version either. */
function isForeign(path: string): boolean {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    const version = typeof value === "object" && value !== null && "version" in value ? value.version : undefined;
    return typeof version !== "number" || (version === 1 && readRound(path) === undefined);
  } catch (error) {
    return !(error instanceof Error && "code" in error);
  }
}

function heldRound(path: string, file: RoundFile): Round {
  const children: ProcessIdentity[] = [];
  const save = (active: boolean, left: readonly ProcessIdentity[]): void => {
    const temporary = `${path}.${process.pid}`;
    try {
      writeFileSync(temporary, JSON.stringify({ ...file, active, children: left }), { mode: 0o644 });
      renameSync(temporary, path);
    } catch {
      // A full disk: the lock still holds by its holder, and only what is left behind is forgotten.
      rmSync(temporary, { force: true });
    }
  };
  return {
    add: (pid) => {
      const state = processState(pid);
      if (state === undefined) return;
      children.push({ pid, start_ticks: state.start_ticks });
      save(true, children);
    },
    end: () => {
      const left = children.filter((child) => isAlive(child) || groupLives(child.pid));
      if (left.length > 0) save(false, left);
      else rmSync(path, { force: true });
    },
  };
}

function readRound(path: string): RoundFile | undefined {
  try {
    const parsed = v.safeParse(RoundFile, JSON.parse(readFileSync(path, "utf8")));
    return parsed.success ? parsed.output : undefined;
  } catch {
    return undefined;
  }
}

function judge(file: RoundFile): Verdict {
  if (file.boot_id !== bootId()) return { kind: "free" };
  const living = file.children.find((child) => isAlive(child) || (processState(child.pid) === undefined && groupLives(child.pid)));
  if (file.active && isAlive(file.holder)) return { kind: "wait" };
  return living === undefined ? { kind: "free" } : { kind: "stuck", pid: living.pid };
}

/** Takes a stale file away under another name first: of two processes that both found it stale, only one succeeds. */
function removeStale(path: string, found: RoundFile): boolean {
  const aside = `${path}.stale.${process.pid}`;
  try {
    renameSync(path, aside);
  } catch {
    return true;
  }
  const moved = readRound(aside);
  if (moved !== undefined && JSON.stringify(moved) !== JSON.stringify(found)) {
    // Somebody took the lock in between: it was theirs, so it goes back.
    renameSync(aside, path);
    return false;
  }
  rmSync(aside, { force: true });
  return true;
}

function strangerStuck(parent: string): number | undefined {
  let names: string[];
  try {
    names = readdirSync(parent).filter((name) => /^llmgw-\d+$/.test(name));
  } catch {
    return undefined;
  }
  for (const name of names) {
    const file = readRound(join(parent, name, FILE));
    if (file === undefined || file.boot_id !== bootId()) continue;
    const stuck = file.children.find((child) => isAlive(child) && processState(child.pid)?.state === "D");
    if (stuck !== undefined) return stuck.pid;
  }
  return undefined;
}
