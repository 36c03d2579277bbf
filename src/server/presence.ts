/**
 * Who is there: writes down when nodes were last heard, and says once when one is lost and once when it is back. The state itself is
 * computed where it is shown (domain/node.ts); this only makes it heard.
 */
import { nodeState, type Silence } from "../domain/node.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { messageOf } from "../lib/user-error.ts";
import type { Sessions } from "./sessions.ts";
import type { Store } from "./store/store.ts";

export interface Presence {
  /** Handed the sessions once they are made; begins to write. */
  watch(sessions: Pick<Sessions, "lastSeenMs" | "live" | "connected">): void;
  connected(nodeId: string): void;
  disconnected(nodeId: string): void;
  /** Writes what is not written yet. */
  stop(): Promise<void>;
}

export interface PresenceOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<Store, "touch" | "nodes" | "node" | "addEvent">;
  readonly silence: Silence;
  readonly listeningSinceMs: number;
  /** Between two writings, ms. Often where other servers read it, else seldom: a restart makes no node late anyway. */
  readonly everyMs: number;
}

export function createPresence(options: PresenceOptions): Presence {
  const { clock, log, store, silence, listeningSinceMs, everyMs } = options;
  let sessions: Pick<Sessions, "lastSeenMs" | "live" | "connected"> | undefined;
  const written = new Map<string, number>();
  /** Those whose session ended since the last writing. */
  const gone = new Set<string>();
  const lost = new Set<string>();
  const timers = new Map<string, Cancel>();
  let working: Promise<void> = Promise.resolve();
  let stopped = false;

  const write = async (): Promise<void> => {
    const seen = new Map<string, number>();
    for (const nodeId of [...(sessions?.connected().keys() ?? []), ...gone]) {
      const atMs = sessions?.lastSeenMs(nodeId);
      if (atMs !== undefined && atMs !== written.get(nodeId)) seen.set(nodeId, atMs);
    }
    if (seen.size === 0) return;
    await store.touch(seen);
    for (const [nodeId, atMs] of seen) written.set(nodeId, atMs);
    gone.clear();
  };
  const guarded = (work: () => Promise<void>): void => {
    working = working.then(work).catch((error: unknown) => log.error("presence could not be written down", { problem: messageOf(error) }));
  };
  const again = (): void => {
    timers.set(
      "",
      clock.after(everyMs, () => {
        guarded(write);
        again();
      }),
    );
  };

  /** Judged by the store as well: another server may have it. */
  const judge = async (nodeId: string): Promise<void> => {
    const row = await store.node(nodeId);
    if (row === undefined || sessions?.live(nodeId) !== undefined || lost.has(nodeId)) return;
    const heardMs = Math.max(row.last_seen_ms ?? 0, sessions?.lastSeenMs(nodeId) ?? 0);
    const signs = {
      connected: false,
      lastSeenMs: heardMs === 0 ? undefined : heardMs,
      joinedMs: row.joined_ms,
      cordoned: false,
      draining: false,
    };
    if (nodeState(signs, clock.nowMs(), listeningSinceMs, silence) !== "lost") {
      if (row.last_seen_ms !== undefined) expect(nodeId);
      return;
    }
    // One that has joined and never came is no news each time a server starts.
    if (heardMs === 0) return;
    lost.add(nodeId);
    log.warn("node lost", { node: nodeId });
    await store.addEvent({
      at_ms: clock.nowMs(),
      node_id: nodeId,
      message: "node lost",
      detail: `last heard ${new Date(heardMs).toISOString()}`,
    });
  };
  const expect = (nodeId: string): void => {
    if (stopped) return;
    timers.get(nodeId)?.();
    timers.set(
      nodeId,
      clock.after(silence.lostMs + 1, () => guarded(() => judge(nodeId))),
    );
  };

  return {
    watch: (given) => {
      sessions = given;
      again();
      // Those that do not come back after a start of this server.
      guarded(async () => {
        for (const row of await store.nodes()) expect(row.node_id);
      });
    },
    connected: (nodeId) => {
      timers.get(nodeId)?.();
      timers.delete(nodeId);
      if (!lost.delete(nodeId)) return;
      log.info("node back", { node: nodeId });
      guarded(() => store.addEvent({ at_ms: clock.nowMs(), node_id: nodeId, message: "node back", detail: undefined }));
    },
    disconnected: (nodeId) => {
      gone.add(nodeId);
      expect(nodeId);
    },
    stop: async () => {
      stopped = true;
      for (const cancel of timers.values()) cancel();
      guarded(write);
      await working;
    },
  };
}
