/**
 * The server's end of the agents' streams. A session is one connection: greeted, then told in every answer what is stored of its node, so
 * that the agent sends what is missing. A message counts when it is in the store, and not before it is acknowledged.
 *
 * One node, one session. A newcomer of the same name is let in at once when it is the same process coming back, and otherwise only when
 * the one before does not answer: a node whose power failed is back in seconds, and a twin is refused with the reason.
 */
import type * as v from "valibot";
import type { LoadSample } from "../domain/load-sample.ts";
import { countProblems, summarize } from "../domain/node.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { messageOf } from "../lib/user-error.ts";
import { CloseCode, type Connection, type ConnectionEvents } from "../protocol/connection.ts";
import {
  type AgentMessage,
  type Ask,
  type FindingsMessage,
  type Have,
  type Hello,
  type InventoryMessage,
  type Question,
  type Refusal,
  type Refuse,
  type Reply,
  readAgentMessage,
  type ServerMessage,
} from "../protocol/messages.ts";
import { OLDEST_PROTOCOL, PROTOCOL } from "../protocol/version.ts";
import type { Store } from "./store/store.ts";

/** What is known of a node only while it talks to this server. */
export interface LiveNode {
  readonly connectedSinceMs: number;
  readonly lastSeenMs: number;
  readonly remote: string;
  readonly load: LoadSample | undefined;
}

export type AskOutcome =
  | { readonly kind: "answer"; readonly result: unknown }
  /** The agent says no. */
  | { readonly kind: "error"; readonly error: v.InferOutput<typeof Refusal> }
  | { readonly kind: "not-connected" }
  | { readonly kind: "timeout" };

export interface Sessions {
  /** Takes over a connection whose credential was that of `nodeId`. `remote` is the peer's address, for people. */
  accept(connection: Connection, nodeId: string, remote: string): ConnectionEvents;
  /** `undefined` while the node is not connected here. */
  live(nodeId: string): LiveNode | undefined;
  /** Every node that is connected here. */
  connected(): ReadonlyMap<string, LiveNode>;
  /** Last message heard of a node since this server started, connected or not. */
  lastSeenMs(nodeId: string): number | undefined;
  ask(nodeId: string, question: Question, options: { readonly timeoutMs: number; readonly signal?: AbortSignal }): Promise<AskOutcome>;
  /** Refuses and closes the node's connection: it was removed. */
  drop(nodeId: string): void;
  figures(): SessionFigures;
  stop(): Promise<void>;
}

/** For metrics; all but `connected` only rise. */
export interface SessionFigures {
  readonly connected: number;
  readonly accepted: number;
  readonly refused: number;
  readonly received: number;
  readonly sent: number;
  readonly malformed: number;
  readonly unknownKinds: number;
  /** Dropped because too much waited for them. */
  readonly slowPeers: number;
  /** Dropped because they were silent. */
  readonly silentPeers: number;
}

export interface SessionsOptions {
  readonly clock: Clock;
  readonly store: Pick<Store, "node" | "saveWords" | "saveReport">;
  readonly log: Log;
  readonly version: string;
  /** Sets the ids of this server's questions apart from those of the one before it. */
  readonly instance: string;
  readonly onConnected?: (nodeId: string) => void;
  /** The node has no connection here any more. */
  readonly onDisconnected?: (nodeId: string) => void;
  /** How often an agent says that it is there. Default 10,000 ms; a connection silent for two and a half of them is dead. */
  readonly beatMs?: number;
}

const BEAT_MS = 10_000;
const SILENT_BEATS = 2.5;
const HELLO_MS = 10_000;
/** The session before is asked twice within it. */
const PROBE_MS = 3_000;
const MAX_BUFFERED_BYTES = 1024 * 1024;
/** Messages of one agent that wait for the store. */
const MAX_WAITING = 32;
const MAX_QUESTIONS = 32;

type SessionPhase = "greeting" | "open" | "closed";

interface Session {
  readonly connection: Connection;
  readonly nodeId: string;
  readonly remote: string;
  readonly sinceMs: number;
  readonly timers: Map<string, Cancel>;
  phase: SessionPhase;
  hello: Hello | undefined;
  heardMs: number;
  have: Have;
  load: LoadSample | undefined;
  /** What it said and is still to be stored, one after the other. */
  work: Promise<void>;
  waiting: number;
}

interface Pending {
  readonly session: Session;
  readonly settle: (outcome: AskOutcome) => void;
}

export function createSessions(options: SessionsOptions): Sessions {
  return new AgentSessions(options);
}

class AgentSessions implements Sessions {
  private readonly options: SessionsOptions;
  private readonly beatMs: number;
  /** Every connection, greeted or not. */
  private readonly all = new Set<Session>();
  /** The open one of each node. */
  private readonly open = new Map<string, Session>();
  private readonly seen = new Map<string, number>();
  private readonly questions = new Map<string, Pending>();
  private readonly unknownKinds = new Set<string>();
  private readonly counts = { accepted: 0, refused: 0, received: 0, sent: 0, malformed: 0, unknownKinds: 0, slowPeers: 0, silentPeers: 0 };
  private asked = 0;
  private stopping = false;

  constructor(options: SessionsOptions) {
    this.options = options;
    this.beatMs = options.beatMs ?? BEAT_MS;
  }

  accept(connection: Connection, nodeId: string, remote: string): ConnectionEvents {
    const nowMs = this.options.clock.nowMs();
    const session: Session = {
      connection,
      nodeId,
      remote,
      sinceMs: nowMs,
      timers: new Map(),
      phase: "greeting",
      hello: undefined,
      heardMs: nowMs,
      have: {},
      load: undefined,
      work: Promise.resolve(),
      waiting: 0,
    };
    this.all.add(session);
    this.counts.accepted++;
    if (this.stopping) this.close(session, CloseCode.goingAway, "the server stops");
    else this.plan(session, "limit", HELLO_MS, () => this.close(session, CloseCode.policy, "no hello"));
    return {
      message: (text) => {
        if (session.phase !== "closed") this.receive(session, text);
      },
      closed: () => this.gone(session),
    };
  }

  live(nodeId: string): LiveNode | undefined {
    const session = this.open.get(nodeId);
    return session === undefined ? undefined : liveOf(session);
  }

  connected(): ReadonlyMap<string, LiveNode> {
    return new Map([...this.open].map(([nodeId, session]) => [nodeId, liveOf(session)]));
  }

  lastSeenMs(nodeId: string): number | undefined {
    return this.seen.get(nodeId);
  }

  figures(): SessionFigures {
    return { connected: this.open.size, ...this.counts };
  }

  async ask(nodeId: string, question: Question, { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal }) {
    const session = this.open.get(nodeId);
    return session === undefined ? ({ kind: "not-connected" } as const) : this.askSession(session, question, timeoutMs, signal);
  }

  drop(nodeId: string): void {
    for (const session of this.all) if (session.nodeId === nodeId) this.refuse(session, REMOVED);
  }

  async stop(): Promise<void> {
    this.stopping = true;
    const works = [...this.all].map((session) => session.work);
    for (const session of [...this.all]) this.close(session, CloseCode.goingAway, "the server stops");
    await Promise.all(works);
  }

  private receive(session: Session, text: string): void {
    this.counts.received++;
    session.heardMs = this.options.clock.nowMs();
    this.seen.set(session.nodeId, session.heardMs);
    const read = readAgentMessage(text);
    switch (read.kind) {
      case "message":
        this.understand(session, read.message);
        return;
      case "unknown":
        this.counts.unknownKinds++;
        if (!this.unknownKinds.has(read.name) && this.unknownKinds.size < 100) {
          this.unknownKinds.add(read.name);
          this.options.log.info("message of an unknown kind ignored", { kind: read.name, node: session.nodeId });
        }
        return;
      case "malformed":
        this.counts.malformed++;
        this.options.log.warn("malformed message of an agent", { node: session.nodeId, remote: session.remote, problem: read.problem });
        this.close(session, CloseCode.policy, `malformed message: ${read.problem}`);
        return;
      default:
        read satisfies never;
    }
  }

  private understand(session: Session, message: AgentMessage): void {
    if (message.kind === "hello") {
      // A second one says nothing new.
      if (session.hello !== undefined) return;
      session.hello = message;
      void this.greet(session, message);
      return;
    }
    // Overtook its own hello, or follows one that is still being judged: the agent sends it again.
    if (session.phase !== "open") return;
    switch (message.kind) {
      case "inventory":
      case "findings":
        this.enqueue(session, () => this.save(session, message));
        return;
      case "beat":
        if (message.load !== undefined) session.load = message.load;
        this.send(session, { kind: "ack", seq: message.seq, have: session.have });
        return;
      case "answer":
        this.answered(session, message);
        return;
      default:
        message satisfies never;
    }
  }

  /** Lets the agent in, or says why not. */
  private async greet(session: Session, hello: Hello): Promise<void> {
    const no = refusalOf(session, hello);
    if (no !== undefined) {
      this.refuse(session, no);
      return;
    }
    const before = this.open.get(session.nodeId);
    const twin = await this.livingTwin(before, hello);
    if (session.phase !== "greeting") return;
    if (twin !== undefined) {
      this.refuse(session, duplicate(hello.node_id, twin, this.options.clock.nowMs()));
      return;
    }
    try {
      const { hostname, mgmt_addr, agent_version, machine } = hello;
      const there = await this.options.store.saveWords(
        session.nodeId,
        { hostname, mgmt_addr, agent_version, machine },
        this.options.clock.nowMs(),
      );
      const row = there ? await this.options.store.node(session.nodeId) : undefined;
      // What is awaited may have changed the session meanwhile; the compiler cannot know.
      if ((session.phase as SessionPhase) !== "greeting") return;
      const faster = this.open.get(session.nodeId);
      if (row === undefined) this.refuse(session, REMOVED);
      // Two of one name came in the same moment: this one asked about the place while it was still free.
      else if (faster !== undefined && faster !== before && faster.hello?.instance !== hello.instance)
        this.refuse(session, duplicate(hello.node_id, faster, this.options.clock.nowMs()));
      else this.welcome(session, hello, row.have);
    } catch (error) {
      this.options.log.error("an agent could not be let in", { node: session.nodeId, problem: messageOf(error) });
      this.refuse(session, STORE_BUSY);
    }
  }

  private welcome(session: Session, hello: Hello, have: Have): void {
    const before = this.open.get(session.nodeId);
    if (before !== undefined) this.close(before, CloseCode.goingAway, "another connection of this node took its place");
    session.phase = "open";
    session.have = have;
    this.open.set(session.nodeId, session);
    this.options.onConnected?.(session.nodeId);
    this.watchSilence(session);
    this.options.log.info("node connected", { node: session.nodeId, remote: session.remote, agent_version: hello.agent_version });
    const protocol = Math.min(hello.protocol, PROTOCOL);
    this.send(session, { kind: "welcome", protocol, server_version: this.options.version, have, beat_ms: this.beatMs });
  }

  /** The session that is in the way and answers; `undefined` when the newcomer may have the place. */
  private async livingTwin(before: Session | undefined, hello: Hello): Promise<Session | undefined> {
    if (before === undefined || before.hello?.instance === hello.instance) return undefined;
    const probe = (): Promise<AskOutcome> => this.askSession(before, { kind: "alive" }, PROBE_MS / 2);
    const first = await probe();
    const outcome = first.kind === "timeout" ? await probe() : first;
    const answers = outcome.kind === "answer" || outcome.kind === "error";
    return answers && before.phase === "open" ? before : undefined;
  }

  private enqueue(session: Session, task: () => Promise<void>): void {
    if (session.waiting >= MAX_WAITING) {
      this.close(session, CloseCode.tryAgainLater, "more messages than the store takes");
      return;
    }
    session.waiting++;
    session.work = session.work.then(async () => {
      try {
        if (session.phase === "open") await task();
      } catch (error) {
        // Not acknowledged, so the agent sends it again.
        this.options.log.error("a report could not be stored", { node: session.nodeId, problem: messageOf(error) });
      } finally {
        session.waiting--;
      }
    });
  }

  private async save(
    session: Session,
    message: v.InferOutput<typeof InventoryMessage> | v.InferOutput<typeof FindingsMessage>,
  ): Promise<void> {
    const stored = { revision: message.revision, hash: message.hash };
    const part = message.kind;
    const outcome = await this.options.store.saveReport(
      session.nodeId,
      message.kind === "inventory"
        ? { part, stored, body: JSON.stringify(message.inventory), summary: summarize(message.inventory) }
        : { part, stored, body: JSON.stringify(message.findings), problems: countProblems(message.findings) },
    );
    switch (outcome) {
      case "saved":
        session.have = { ...session.have, [part]: stored };
        break;
      case "stale":
        session.have = (await this.options.store.node(session.nodeId))?.have ?? session.have;
        break;
      case "gone":
        this.refuse(session, REMOVED);
        return;
      default:
        outcome satisfies never;
    }
    this.send(session, { kind: "ack", have: session.have });
  }

  private askSession(session: Session, question: Question, timeoutMs: number, signal?: AbortSignal): Promise<AskOutcome> {
    const id = `${this.options.instance}-${this.asked++}`;
    const own = [...this.questions.values()].filter((pending) => pending.session === session).length;
    if (own >= MAX_QUESTIONS) {
      const error = { what: "the node is asked too much", why: `${own} questions wait for its answer`, fix: "ask again in a moment" };
      return Promise.resolve({ kind: "error", error });
    }
    return new Promise((resolve) => {
      const stop = (): void => settle({ kind: "timeout" });
      const settle = (outcome: AskOutcome): void => {
        cancel();
        signal?.removeEventListener("abort", stop);
        this.questions.delete(id);
        resolve(outcome);
      };
      const cancel = this.options.clock.after(timeoutMs, stop);
      signal?.addEventListener("abort", stop, { once: true });
      this.questions.set(id, { session, settle });
      const ask: Ask = { kind: "ask", id, question };
      this.send(session, ask);
    });
  }

  private answered(session: Session, reply: Reply): void {
    const pending = this.questions.get(reply.id);
    // Late, or of a question that another node was asked: nobody waits for it.
    if (pending?.session !== session) return;
    pending.settle(reply.error === undefined ? { kind: "answer", result: reply.result } : { kind: "error", error: reply.error });
  }

  private watchSilence(session: Session): void {
    const limitMs = this.beatMs * SILENT_BEATS;
    const silentMs = this.options.clock.nowMs() - session.heardMs;
    if (silentMs < limitMs) {
      this.plan(session, "limit", limitMs - silentMs, () => this.watchSilence(session));
      return;
    }
    this.counts.silentPeers++;
    this.close(session, CloseCode.goingAway, `nothing heard for ${Math.round(silentMs / 1000)} s`);
  }

  private plan(session: Session, name: string, ms: number, run: () => void): void {
    session.timers.get(name)?.();
    session.timers.set(name, this.options.clock.after(ms, run));
  }

  private send(session: Session, message: ServerMessage): void {
    if (session.phase === "closed") return;
    if (session.connection.bufferedBytes() > MAX_BUFFERED_BYTES) {
      this.counts.slowPeers++;
      this.close(session, CloseCode.tryAgainLater, "it does not read what is sent");
      return;
    }
    this.counts.sent++;
    session.connection.send(JSON.stringify(message));
  }

  private refuse(session: Session, refuse: Refuse): void {
    if (session.phase === "closed") return;
    this.counts.refused++;
    this.options.log.warn("agent refused", { node: session.nodeId, remote: session.remote, what: refuse.what, why: refuse.why });
    this.send(session, refuse);
    this.close(session, CloseCode.policy, refuse.what);
  }

  private close(session: Session, code: number, reason: string): void {
    if (session.phase === "closed") return;
    if (session.phase === "open") this.options.log.info("node disconnected", { node: session.nodeId, remote: session.remote, reason });
    this.forget(session);
    // A close frame holds 123 bytes of reason (RFC 6455, section 5.5).
    session.connection.close(code, reason.slice(0, 100));
  }

  /** The transport says that it has ended. */
  private gone(session: Session): void {
    if (session.phase === "open")
      this.options.log.info("node disconnected", { node: session.nodeId, remote: session.remote, reason: "closed by the agent" });
    this.forget(session);
  }

  private forget(session: Session): void {
    session.phase = "closed";
    for (const cancel of session.timers.values()) cancel();
    session.timers.clear();
    this.all.delete(session);
    if (this.open.get(session.nodeId) === session) {
      this.open.delete(session.nodeId);
      this.options.onDisconnected?.(session.nodeId);
    }
    for (const pending of [...this.questions.values()]) if (pending.session === session) pending.settle({ kind: "not-connected" });
  }
}

function liveOf(session: Session): LiveNode {
  return { connectedSinceMs: session.sinceMs, lastSeenMs: session.heardMs, remote: session.remote, load: session.load };
}

const REMOVED: Refuse = {
  kind: "refuse",
  code: "revoked",
  what: "this node is not part of the cluster any more",
  why: "it was removed, and its credential with it",
  fix: "join again with a new token: llmgw ctl token create",
};

const STORE_BUSY: Refuse = {
  kind: "refuse",
  code: "busy",
  what: "the server cannot let anyone in at this moment",
  why: "its database does not answer",
  fix: "look at the server's log; agents come back by themselves",
};

function refusalOf(session: Session, hello: Hello): Refuse | undefined {
  if (hello.protocol < OLDEST_PROTOCOL) {
    return {
      kind: "refuse",
      code: "protocol",
      what: `an agent of protocol ${hello.protocol} is too old`,
      why: `this server speaks ${OLDEST_PROTOCOL === PROTOCOL ? PROTOCOL : `${OLDEST_PROTOCOL} to ${PROTOCOL}`}`,
      fix: `upgrade the agent (version ${hello.agent_version})`,
    };
  }
  if (hello.node_id !== session.nodeId) {
    return {
      kind: "refuse",
      code: "node",
      what: `this credential is not that of the node "${hello.node_id}"`,
      why: `it was given to "${session.nodeId}"`,
      fix: `set node_id to "${session.nodeId}", or join anew with a token: llmgw ctl token create`,
    };
  }
  return undefined;
}

function duplicate(nodeId: string, twin: Session, nowMs: number): Refuse {
  const minutes = Math.max(1, Math.round((nowMs - twin.sinceMs) / 60_000));
  return {
    kind: "refuse",
    code: "duplicate",
    what: `a node "${nodeId}" is connected already`,
    why: `another agent of that name (${twin.hello?.hostname ?? "no host name"}, ${twin.remote}) has been connected for ${minutes} min and answers`,
    fix: "stop one of the two, or give one of them a name (--node-id) and a token of its own",
  };
}
