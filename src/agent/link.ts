/**
 * The agent's end of the stream: keeps one connection to the server, and what the server has stored equal to what is true here.
 *
 * Level, not edge: each part (inventory, findings) is kept whole with a revision that only rises. A part counts as stored when the server
 * names its revision and hash; until then it is sent again. So nothing depends on one message arriving, and a new connection to a server
 * that has everything sends nothing but `hello`.
 */

import * as v from "valibot";
import type { LoadSample } from "../domain/load-sample.ts";
import { type Backoff, backoffMs } from "../lib/backoff.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import { contentHash } from "../lib/content-hash.ts";
import type { Log } from "../lib/log.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { CloseCode, type Connect, type Connection } from "../protocol/connection.ts";
import {
  type AgentMessage,
  type Have,
  type Hello,
  MAX_MESSAGE_BYTES,
  PARTS,
  type Part,
  Question,
  type Refuse,
  readServerMessage,
  type ServerMessage,
  type Welcome,
} from "../protocol/messages.ts";
import { OLDEST_PROTOCOL, PROTOCOL } from "../protocol/version.ts";

export type LinkState =
  | { readonly kind: "connecting"; readonly failures: number; readonly problem: string | undefined }
  | { readonly kind: "connected"; readonly sinceMs: number; readonly serverVersion: string }
  | { readonly kind: "refused"; readonly what: string; readonly why: string; readonly fix: string }
  | { readonly kind: "stopped" };

export interface Link {
  /** What is true now, whole. One that says the same as before costs nothing. */
  set(part: Part, body: unknown): void;
  /** Goes out with the next beat; only the last one matters. */
  setLoad(sample: LoadSample): void;
  state(): LinkState;
  figures(): LinkFigures;
  /** Tries again at once, as after a change of the configuration. */
  reconnect(): void;
  /** Closes the connection and stays away. */
  stop(): Promise<void>;
}

/** For metrics; they only rise. */
export interface LinkFigures {
  readonly connects: number;
  readonly failures: number;
  readonly received: number;
  readonly sent: number;
  readonly malformed: number;
}

export type Greeting = Omit<Hello, "kind" | "protocol" | "instance">;

export interface LinkOptions {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly chance: () => number;
  readonly connect: Connect;
  readonly log: Log;
  /** Asked anew for each connection: the configuration may have been read again. */
  readonly greeting: () => Greeting;
  /** Chosen by chance for each start of the agent. */
  readonly instance: string;
  /** Answers a question of the server; a `UserError` is a no, and goes back with its words. */
  readonly answer: (question: Question, signal: AbortSignal) => Promise<unknown>;
}

const BACKOFF: Backoff = { firstMs: 500, maxMs: 8_000 };
/** A refusal that passes by itself (a twin that was stopped, a store that is busy) is asked about sooner than one that needs a person. */
const REFUSED_PASSING_MS = 15_000;
const REFUSED_MS = 60_000;
const OPEN_MS = 10_000;
/** Longer than the server takes to find out whether a twin is alive. */
const WELCOME_MS = 15_000;
/** A connection that lived this long was a good one: the next failure begins a new row. */
const GOOD_AFTER_MS = 10_000;
const RESEND_MS = 5_000;
/** Silence of the other side, in beats, after which the connection is dead. */
const SILENT_BEATS = 2.5;
const MAX_BUFFERED_BYTES = 1024 * 1024;
const MAX_ANSWERING = 8;
const REMEMBERED_QUESTIONS = 64;

interface PartState {
  readonly body: string;
  readonly hash: string;
  readonly revision: number;
  /** The server has exactly this. */
  readonly stored: boolean;
  readonly sentMs: number | undefined;
}

/** One connection from its opening to its end. Its late events find it replaced and do nothing. */
interface Stay {
  connection: Connection | undefined;
  welcome: { readonly sinceMs: number; readonly message: Welcome } | undefined;
  heardMs: number;
  seq: number;
  readonly abort: AbortController;
  readonly timers: Map<string, Cancel>;
  readonly asked: string[];
  answering: number;
}

export function createLink(options: LinkOptions): Link {
  const link = new AgentLink(options);
  link.reconnect();
  return link;
}

class AgentLink implements Link {
  private readonly options: LinkOptions;
  private readonly parts = new Map<Part, PartState>();
  private readonly unknownKinds = new Set<string>();
  private readonly counts = { connects: 0, failures: 0, received: 0, sent: 0, malformed: 0 };
  private load: LoadSample | undefined;
  private stay: Stay | undefined;
  private again: Cancel = () => undefined;
  private row = 0;
  private told: LinkState = { kind: "connecting", failures: 0, problem: undefined };

  constructor(options: LinkOptions) {
    this.options = options;
  }

  set(part: Part, body: unknown): void {
    const text = JSON.stringify(body);
    const hash = contentHash(text);
    const before = this.parts.get(part);
    if (before?.hash === hash) return;
    if (Buffer.byteLength(text) > MAX_MESSAGE_BYTES - 1024) {
      this.options.log.error("too large to be sent", { part, bytes: Buffer.byteLength(text), limit_bytes: MAX_MESSAGE_BYTES });
      return;
    }
    this.parts.set(part, { body: text, hash, revision: (before?.revision ?? 0) + 1, stored: false, sentMs: undefined });
    this.pump();
  }

  setLoad(sample: LoadSample): void {
    this.load = sample;
  }

  state(): LinkState {
    return this.told;
  }

  figures(): LinkFigures {
    return { ...this.counts };
  }

  reconnect(): void {
    if (this.told.kind === "stopped") return;
    this.row = 0;
    this.end(CloseCode.normal, "connecting anew");
    this.open();
  }

  async stop(): Promise<void> {
    this.told = { kind: "stopped" };
    this.end(CloseCode.goingAway, "the agent stops");
  }

  /** Ends the stay, whatever state it is in, and plans nothing. */
  private end(code: number, reason: string): void {
    this.again();
    const stay = this.stay;
    this.stay = undefined;
    if (stay === undefined) return;
    for (const cancel of stay.timers.values()) cancel();
    stay.abort.abort();
    stay.connection?.close(code, reason);
  }

  private open(): void {
    const { clock, connect } = this.options;
    const stay: Stay = {
      connection: undefined,
      welcome: undefined,
      heardMs: clock.nowMs(),
      seq: 0,
      abort: new AbortController(),
      timers: new Map(),
      asked: [],
      answering: 0,
    };
    this.stay = stay;
    const current = (): boolean => this.stay === stay;
    this.limit(stay, OPEN_MS, "no connection");
    const events = {
      message: (text: string): void => {
        if (current()) this.receive(stay, text);
      },
      closed: (code: number, reason: string): void => {
        if (current()) this.lost(`closed by the server (${code}${reason === "" ? "" : `: ${reason}`})`);
      },
    };
    connect(events, stay.abort.signal).then(
      (connection) => {
        if (!current()) {
          connection.close(CloseCode.normal, "too late");
          return;
        }
        stay.connection = connection;
        this.greet(stay);
      },
      (error: unknown) => {
        if (!current()) return;
        if (error instanceof UserError) this.refused({ what: error.what, why: error.why, fix: error.fix }, REFUSED_MS);
        else this.lost(messageOf(error));
      },
    );
  }

  /** At most one limit stands at a time: for opening, then for the welcome, then for silence. */
  private limit(stay: Stay, ms: number, what: string): void {
    this.plan(stay, "limit", ms, () => this.lost(`${what} within ${Math.round(ms / 1000)} s`));
  }

  private plan(stay: Stay, name: string, ms: number, run: () => void): void {
    stay.timers.get(name)?.();
    stay.timers.set(
      name,
      this.options.clock.after(ms, () => {
        if (this.stay === stay) run();
      }),
    );
  }

  private greet(stay: Stay): void {
    this.counts.connects++;
    this.limit(stay, WELCOME_MS, "no welcome");
    this.send(stay, { ...this.options.greeting(), kind: "hello", protocol: PROTOCOL, instance: this.options.instance });
  }

  private receive(stay: Stay, text: string): void {
    this.counts.received++;
    stay.heardMs = this.options.clock.nowMs();
    const read = readServerMessage(text);
    switch (read.kind) {
      case "message":
        this.understand(stay, read.message);
        return;
      case "unknown":
        if (!this.unknownKinds.has(read.name) && this.unknownKinds.size < 100) {
          this.unknownKinds.add(read.name);
          this.options.log.info("message of an unknown kind ignored", { kind: read.name });
        }
        return;
      case "malformed":
        this.counts.malformed++;
        this.options.log.warn("malformed message of the server", { problem: read.problem });
        this.lost(`the server sent a malformed message: ${read.problem}`);
        return;
      default:
        read satisfies never;
    }
  }

  private understand(stay: Stay, message: ServerMessage): void {
    switch (message.kind) {
      case "welcome":
        if (stay.welcome === undefined) this.welcomed(stay, message);
        return;
      case "refuse":
        this.refused(message, passes(message) ? REFUSED_PASSING_MS : REFUSED_MS);
        return;
      case "ack":
        if (stay.welcome === undefined) return;
        this.compare(message.have);
        this.pump();
        return;
      case "ask":
        if (stay.welcome !== undefined) void this.asked(stay, message.id, message.question);
        return;
      default:
        message satisfies never;
    }
  }

  private welcomed(stay: Stay, message: Welcome): void {
    if (message.protocol < OLDEST_PROTOCOL || message.protocol > PROTOCOL) {
      this.refused(
        {
          what: `the server speaks protocol ${message.protocol} with this agent`,
          why: `this version speaks ${OLDEST_PROTOCOL === PROTOCOL ? PROTOCOL : `${OLDEST_PROTOCOL} to ${PROTOCOL}`}`,
          fix: message.protocol > PROTOCOL ? "upgrade the agent" : `upgrade the server (version ${message.server_version})`,
        },
        REFUSED_MS,
      );
      return;
    }
    const nowMs = this.options.clock.nowMs();
    stay.welcome = { sinceMs: nowMs, message };
    this.told = { kind: "connected", sinceMs: nowMs, serverVersion: message.server_version };
    this.options.log.info("connected to the server", { server_version: message.server_version, protocol: message.protocol });
    for (const [part, state] of this.parts) this.parts.set(part, { ...state, stored: false, sentMs: undefined });
    this.compare(message.have);
    this.watchSilence(stay, message.beat_ms * SILENT_BEATS);
    // Spread over the first interval: a thousand nodes that came back together do not beat together.
    this.plan(stay, "beat", message.beat_ms * this.options.chance(), () => this.beat(stay, message.beat_ms));
    this.pump();
  }

  /** What the server says it has, against what is true here. A server that has other content at our revision gets ours as a later one. */
  private compare(have: Have): void {
    for (const part of PARTS) {
      const state = this.parts.get(part);
      const stored = have[part];
      if (state === undefined || stored === undefined) continue;
      if (stored.hash === state.hash && stored.revision >= state.revision) {
        this.parts.set(part, { ...state, revision: stored.revision, stored: true });
      } else if (stored.revision >= state.revision) {
        this.parts.set(part, { ...state, revision: stored.revision + 1, stored: false, sentMs: undefined });
      }
    }
  }

  /** Sends every part that the server lacks, unless it is on its way or much waits already. */
  private pump(): void {
    const stay = this.stay;
    if (stay?.welcome === undefined || stay.connection === undefined) return;
    const nowMs = this.options.clock.nowMs();
    for (const [part, state] of this.parts) {
      const underWay = state.sentMs !== undefined && nowMs - state.sentMs < RESEND_MS;
      if (state.stored || underWay || stay.connection.bufferedBytes() > MAX_BUFFERED_BYTES) continue;
      this.parts.set(part, { ...state, sentMs: nowMs });
      // Written by hand around the text that is there already: an inventory is not made into JSON twice.
      this.sendText(stay, `{"kind":"${part}","revision":${state.revision},"hash":"${state.hash}","${part}":${state.body}}`);
    }
  }

  private beat(stay: Stay, everyMs: number): void {
    this.send(stay, { kind: "beat", seq: stay.seq++, ...(this.load === undefined ? {} : { load: this.load }) });
    this.pump();
    this.plan(stay, "beat", everyMs * (0.9 + 0.2 * this.options.chance()), () => this.beat(stay, everyMs));
  }

  private watchSilence(stay: Stay, limitMs: number): void {
    const silentMs = this.options.clock.nowMs() - stay.heardMs;
    if (silentMs >= limitMs) {
      this.lost(`nothing heard for ${Math.round(silentMs / 1000)} s`);
      return;
    }
    this.plan(stay, "limit", limitMs - silentMs, () => this.watchSilence(stay, limitMs));
  }

  private async asked(stay: Stay, id: string, raw: { readonly kind: string }): Promise<void> {
    if (stay.asked.includes(id)) return;
    stay.asked.push(id);
    if (stay.asked.length > REMEMBERED_QUESTIONS) stay.asked.shift();
    if (stay.answering >= MAX_ANSWERING) {
      this.send(stay, {
        kind: "answer",
        id,
        error: { what: "the agent is busy", why: `it answers ${MAX_ANSWERING} questions already`, fix: "ask again in a moment" },
      });
      return;
    }
    stay.answering++;
    const reply = await this.answerTo(stay, raw);
    stay.answering--;
    if (this.stay === stay) this.send(stay, { kind: "answer", id, ...reply });
  }

  /** Never throws. */
  private async answerTo(stay: Stay, raw: { readonly kind: string }) {
    const question = v.safeParse(Question, raw);
    if (!question.success) {
      const why = "it is of another version, or the question is malformed";
      return { error: { what: `the agent does not know the question "${raw.kind.slice(0, 64)}"`, why, fix: "upgrade the agent" } };
    }
    if (question.output.kind === "alive") return { result: { alive: true } };
    try {
      const result = await this.options.answer(question.output, stay.abort.signal);
      const bytes = Buffer.byteLength(JSON.stringify(result) ?? "null");
      if (bytes > MAX_MESSAGE_BYTES - 1024) {
        return {
          error: {
            what: "the answer is too large",
            why: `it has ${bytes} bytes of at most ${MAX_MESSAGE_BYTES}`,
            fix: "ask on the node itself",
          },
        };
      }
      return { result };
    } catch (error) {
      if (error instanceof UserError) return { error: { what: error.what, why: error.why, fix: error.fix } };
      this.options.log.error("a question could not be answered", { question: question.output.kind, problem: messageOf(error) });
      return { error: { what: "the agent could not answer", why: messageOf(error), fix: "look at the agent's log" } };
    }
  }

  private send(stay: Stay, message: AgentMessage): void {
    this.sendText(stay, JSON.stringify(message));
  }

  private sendText(stay: Stay, text: string): void {
    if (stay.connection === undefined) return;
    this.counts.sent++;
    stay.connection.send(text);
  }

  /** The connection is gone or of no use: another one follows, later each time. */
  private lost(problem: string): void {
    const { clock, chance, log } = this.options;
    const since = this.stay?.welcome?.sinceMs;
    if (since !== undefined && clock.nowMs() - since >= GOOD_AFTER_MS) this.row = 0;
    this.row++;
    this.counts.failures++;
    const waitMs = backoffMs(this.row, chance(), BACKOFF);
    const fields = { problem, failures: this.row, again_in_ms: waitMs };
    if (since !== undefined) log.warn("connection to the server lost", fields);
    else if (this.told.kind !== "connecting" || this.told.problem !== problem) log.warn("the server cannot be reached", fields);
    else log.debug("the server cannot be reached", fields);
    this.told = { kind: "connecting", failures: this.row, problem };
    this.end(CloseCode.goingAway, problem.slice(0, 100));
    this.again = clock.after(waitMs, () => this.open());
  }

  private refused({ what, why, fix }: Pick<Refuse, "what" | "why" | "fix">, afterMs: number): void {
    const { clock, chance, log } = this.options;
    this.counts.failures++;
    const before = this.told;
    if (before.kind !== "refused" || before.what !== what || before.why !== why) log.error("refused by the server", { what, why, fix });
    this.told = { kind: "refused", what, why, fix };
    this.end(CloseCode.normal, "refused");
    this.again = clock.after(afterMs * (0.75 + 0.5 * chance()), () => this.open());
  }
}

function passes({ code }: Refuse): boolean {
  return code === "duplicate" || code === "busy";
}
