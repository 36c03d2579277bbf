/** Who a process is: pid and start time together, since pids are used again. Source: proc_pid_stat(5). */
import { readdirSync, readFileSync } from "node:fs";

export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks after boot. */
  readonly start_ticks: number;
}

export interface ProcessState extends ProcessIdentity {
  /** R running, S sleeping, D uninterruptible, Z zombie, T stopped, … */
  readonly state: string;
  readonly name: string;
  /** Process group. */
  readonly group: number;
}

/** Parses one line of `/proc/PID/stat`. The name stands in parentheses and may hold any character, parentheses too. */
export function parseProcessStat(text: string): ProcessState | undefined {
  const open = text.indexOf("(");
  const close = text.lastIndexOf(")");
  if (open < 1 || close < open) return undefined;
  const fields = text.slice(close + 2).split(" ");
  const pid = Number(text.slice(0, open).trim());
  const start_ticks = Number(fields[19]);
  const group = Number(fields[2]);
  if (!Number.isSafeInteger(pid) || !Number.isSafeInteger(start_ticks) || !Number.isSafeInteger(group)) return undefined;
  return { pid, start_ticks, state: fields[0] ?? "", name: text.slice(open + 1, close), group };
}

/** The process with that pid now, `undefined` when there is none. A zombie is gone: it holds nothing any more. */
export function processState(pid: number): ProcessState | undefined {
  try {
    const state = parseProcessStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
    return state === undefined || state.state === "Z" || state.state === "X" ? undefined : state;
  } catch {
    return undefined;
  }
}

/** Whether exactly that process, not another with the same pid, still lives. */
export function isAlive(identity: ProcessIdentity): boolean {
  return processState(identity.pid)?.start_ticks === identity.start_ticks;
}

/** Whether any process of a group lives, including those that outlived their leader. */
export function groupLives(group: number): boolean {
  try {
    process.kill(-group, 0);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EPERM")) return false;
  }
  // Ended members that nobody has waited for yet still answer: only /proc tells them apart.
  return readdirSync("/proc").some((name) => /^\d+$/.test(name) && processState(Number(name))?.group === group);
}

/** SIGKILL to the whole group, then a moment for the kernel: a process in uninterruptible sleep is left behind. */
export async function endGroup(pid: number, ended: Promise<unknown>): Promise<void> {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Gone already.
  }
  const until = performance.now() + 100;
  await Promise.race([ended, Bun.sleep(100)]);
  // What the process has started ends a moment after it: an ended group must not count as one that cannot be ended.
  while (groupLives(pid) && performance.now() < until) await Bun.sleep(5);
}

/** The kernel's id of this boot: process start times only mean something together with it. */
export function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "";
  }
}
