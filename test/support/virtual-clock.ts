/** A clock that stands still until it is moved, for tests of what waits: timers run in their order, and promises settle in between. */
import type { Cancel, Clock } from "../../src/lib/clock.ts";

export interface VirtualClock extends Clock {
  /** Moves on by `ms`, running what falls due on the way. */
  advance(ms: number): Promise<void>;
  /** Time of the next planned call, ms since 1970; `undefined` when nothing is planned. */
  nextMs(): number | undefined;
}

interface Planned {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
}

export function createVirtualClock(startMs = Date.parse("2026-11-30T12:00:00Z")): VirtualClock {
  let nowMs = startMs;
  let order = 0;
  const planned = new Heap();

  return {
    nowMs: () => nowMs,
    after: (ms, run): Cancel => {
      const entry: Planned = { atMs: nowMs + Math.max(0, ms), order: order++, run };
      planned.push(entry);
      return () => planned.cancel(entry);
    },
    nextMs: () => planned.peek()?.atMs,
    advance: async (ms) => {
      const untilMs = nowMs + ms;
      await settle();
      for (let next = planned.peek(); next !== undefined && next.atMs <= untilMs; next = planned.peek()) {
        planned.pop();
        nowMs = Math.max(nowMs, next.atMs);
        next.run();
        await settle();
      }
      nowMs = untilMs;
    },
  };
}

/** Lets every promise settle that needs no timer: chains here are a few dozen long. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < SETTLE_TURNS; turn++) await undefined;
}

const SETTLE_TURNS = 40;

/** A binary heap by time, then by the order of planning. Cancelled entries stay until they come up. */
class Heap {
  private readonly entries: Planned[] = [];
  private readonly cancelled = new Set<Planned>();

  push(entry: Planned): void {
    this.entries.push(entry);
    this.rise(this.entries.length - 1);
  }

  cancel(entry: Planned): void {
    this.cancelled.add(entry);
  }

  peek(): Planned | undefined {
    for (let first = this.entries[0]; first !== undefined; first = this.entries[0]) {
      if (!this.cancelled.delete(first)) return first;
      this.remove();
    }
    // What was cancelled after it ran is nowhere in the heap.
    this.cancelled.clear();
    return undefined;
  }

  pop(): void {
    if (this.peek() !== undefined) this.remove();
  }

  private remove(): void {
    const last = this.entries.pop();
    if (last === undefined || this.entries.length === 0) return;
    this.entries[0] = last;
    this.sink(0);
  }

  private rise(from: number): void {
    for (let at = from; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.before(at, parent)) return;
      this.swap(at, parent);
      at = parent;
    }
  }

  private sink(from: number): void {
    for (let at = from; ; ) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      const least = [left, right].reduce((best, child) => (child < this.entries.length && this.before(child, best) ? child : best), at);
      if (least === at) return;
      this.swap(at, least);
      at = least;
    }
  }

  private before(a: number, b: number): boolean {
    const [one, other] = [this.entries[a], this.entries[b]];
    if (one === undefined || other === undefined) return false;
    return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
  }

  private swap(a: number, b: number): void {
    const [one, other] = [this.entries[a], this.entries[b]];
    if (one === undefined || other === undefined) return;
    this.entries[a] = other;
    this.entries[b] = one;
  }
}
