/** What a route of the API is: who may ask, what it is handed, what it gives. */
import * as v from "valibot";
import type { Silence } from "../domain/node.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { Guard } from "./auth.ts";
import { ApiRefusal } from "./refusals.ts";
import type { Sessions } from "./sessions.ts";
import type { Operator, Role, Store } from "./store/store.ts";
import type { Moment } from "./views.ts";

export interface ApiOptions {
  readonly store: Store;
  readonly sessions: Sessions;
  readonly guard: Guard;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly silence: Silence;
  readonly listeningSinceMs: number;
  readonly random: (bytes: number) => Uint8Array;
  /** Where nodes are to join, for whoever sent this request. */
  readonly joinAt: (request: Request) => { readonly server: string; readonly fingerprint: string | undefined };
  readonly stopping: () => boolean;
}

export interface Call {
  readonly request: Request;
  readonly url: URL;
  readonly remote: string;
  /** What stands for `:id` in the path. */
  readonly id: string;
  readonly operator: Operator;
}

export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly role: Role;
  /** A value becomes JSON. */
  readonly run: (call: Call) => Promise<unknown>;
}

export const DONE = { done: true } as const;

export function momentOf({ clock, sessions, silence, listeningSinceMs }: ApiOptions): Moment {
  return {
    nowMs: clock.nowMs(),
    listeningSinceMs,
    silence,
    connected: sessions.connected(),
    lastSeenMs: (nodeId) => sessions.lastSeenMs(nodeId),
  };
}

/** Tells the log and the events what an operator did. */
export async function note(
  { store, clock, log }: ApiOptions,
  call: Call,
  message: string,
  nodeId?: string,
  detail?: string,
): Promise<void> {
  const by = `by ${call.operator.name}`;
  log.info(message, { node: nodeId, by: call.operator.name, detail });
  await store.addEvent({ at_ms: clock.nowMs(), node_id: nodeId, message, detail: detail === undefined ? by : `${detail}, ${by}` });
}

/** Short and public: what people type. */
export function shortId({ random }: ApiOptions): string {
  return Buffer.from(random(5)).toString("hex");
}

/** An empty body is an empty object. Throws what does not fit, with its place. */
export async function bodyOf<T>(request: Request, schema: v.GenericSchema<unknown, T>): Promise<T> {
  const text = await request.text();
  let value: unknown;
  try {
    value = text === "" ? {} : JSON.parse(text);
  } catch {
    throw new ApiRefusal(400, { what: "the body is not JSON", why: "it cannot be parsed", fix: "send JSON" });
  }
  const checked = v.safeParse(schema, value);
  if (checked.success) return checked.output;
  const issue = checked.issues[0];
  const why = `${v.getDotPath(issue) ?? "body"}: ${issue.message.slice(0, 300)}`;
  throw new ApiRefusal(400, { what: "the body does not fit", why, fix: "bring both sides to one version, or correct the request" });
}
