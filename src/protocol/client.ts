/** Asks the control plane over HTTP (api.ts): for `llmgw ctl`, and for an agent that joins. */
import * as v from "valibot";
import { messageOf } from "../lib/user-error.ts";
import type { ClientTls } from "../platform/server-certificate.ts";
import { API_PREFIX, ErrorBody } from "./api.ts";
import type { Refusal } from "./messages.ts";

export interface ApiServer {
  /** Without a slash at its end. */
  readonly url: string;
  readonly tls: ClientTls | undefined;
  /** Join tokens travel in the body, so joining has none. */
  readonly secret: string | undefined;
}

export interface ApiCall<T> {
  readonly method: "GET" | "POST" | "DELETE";
  /** Below `/api/v1`, such as `/nodes`. */
  readonly path: string;
  readonly body?: unknown;
  readonly answer: v.GenericSchema<unknown, T>;
  /** Default 10,000 ms. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

export type ApiOutcome<T> =
  | { readonly kind: "ok"; readonly value: T }
  /** The server says no, in its own words. */
  | { readonly kind: "refused"; readonly status: number; readonly error: v.InferOutput<typeof Refusal> }
  /** Trying again may help. */
  | { readonly kind: "unreachable"; readonly problem: string }
  /** Something answers there, and it is not a server of ours, or one of another version. */
  | { readonly kind: "strange"; readonly status: number; readonly problem: string };

/** Never throws, but when the signal aborts. */
export async function callApi<T>(server: ApiServer, call: ApiCall<T>): Promise<ApiOutcome<T>> {
  const got = await fetchApi(server, call);
  if (got.kind !== "answer") return got;
  const value = jsonOf(await got.response.text().catch(() => ""));
  const checked = v.safeParse(call.answer, value);
  if (checked.success) return { kind: "ok", value: checked.output };
  const issue = checked.issues[0];
  return {
    kind: "strange",
    status: got.response.status,
    problem: `unexpected answer at ${v.getDotPath(issue) ?? "its root"}: ${issue.message}`,
  };
}

/** The same for an answer that is a file. */
export async function fetchFile(server: ApiServer, call: Omit<ApiCall<never>, "answer">): Promise<ApiOutcome<Uint8Array>> {
  const got = await fetchApi(server, call);
  return got.kind === "answer" ? { kind: "ok", value: new Uint8Array(await got.response.arrayBuffer()) } : got;
}

type Fetched = { readonly kind: "answer"; readonly response: Response } | Exclude<ApiOutcome<never>, { readonly kind: "ok" }>;

async function fetchApi(server: ApiServer, call: Omit<ApiCall<never>, "answer">): Promise<Fetched> {
  const limit = AbortSignal.timeout(call.timeoutMs ?? 10_000);
  const signal = call.signal === undefined ? limit : AbortSignal.any([limit, call.signal]);
  let response: Response;
  try {
    response = await fetch(`${server.url}${API_PREFIX}${call.path}`, {
      method: call.method,
      headers: {
        ...(server.secret === undefined ? {} : { authorization: `Bearer ${server.secret}` }),
        ...(call.body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      // Nothing here redirects; a proxy's sign-in page would be handed our secret.
      redirect: "manual",
      signal,
      ...(server.tls === undefined ? {} : { tls: server.tls }),
    });
  } catch (error) {
    if (call.signal?.aborted === true) throw error;
    return { kind: "unreachable", problem: limit.aborted ? "no answer in time" : messageOf(error) };
  }
  if (response.ok) return { kind: "answer", response };
  const refusal = v.safeParse(ErrorBody, jsonOf(await response.text().catch(() => "")));
  return refusal.success
    ? { kind: "refused", status: response.status, error: refusal.output.error }
    : { kind: "strange", status: response.status, problem: `HTTP status ${response.status}` };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
