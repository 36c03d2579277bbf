/**
 * Messages of the stream, as JSON text. State travels whole: the inventory and the findings each carry a revision that only rises, and
 * the server says in every `ack` which it has stored; the agent sends what is missing until then. Unknown kinds are ignored, and unknown
 * keys too (`v.object`): the other side may be newer.
 */
import * as v from "valibot";
import { Finding } from "../domain/finding.ts";
import { Inventory } from "../domain/inventory.ts";
import { LoadSample } from "../domain/load-sample.ts";
import { NodeId } from "../domain/node.ts";

/** No message is longer, in bytes; both sides close with 1009 when one is. A node of 8 cards, 56 instances and 200 models takes 160 KiB. */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

const Revision = v.pipe(v.number(), v.integer(), v.minValue(1));
const Text = v.pipe(v.string(), v.maxLength(4096));

/** What has a revision of its own. */
export const Part = v.picklist(["inventory", "findings"]);
export type Part = v.InferOutput<typeof Part>;
export const PARTS: readonly Part[] = Part.options;

/** What the server has stored of one part. */
export const Stored = v.object({ revision: Revision, hash: Text });
export type Stored = v.InferOutput<typeof Stored>;

export const Have = v.object({ inventory: v.optional(Stored), findings: v.optional(Stored) });
export type Have = v.InferOutput<typeof Have>;

export const Hello = v.object({
  kind: v.literal("hello"),
  protocol: v.pipe(v.number(), v.integer(), v.minValue(1)),
  node_id: NodeId,
  /** Chosen by chance when the agent starts: tells two agents of one name apart. */
  instance: Text,
  agent_version: Text,
  hostname: v.optional(Text),
  mgmt_addr: v.optional(Text),
  /** The recorded machine that stands for this node's hardware. */
  machine: v.optional(Text),
});
export type Hello = v.InferOutput<typeof Hello>;

export const InventoryMessage = v.object({ kind: v.literal("inventory"), revision: Revision, hash: Text, inventory: Inventory });
export const FindingsMessage = v.object({ kind: v.literal("findings"), revision: Revision, hash: Text, findings: v.array(Finding) });
/** Sent at the server's `beat_ms`, whether or not there is anything to say. Answered with an `ack` that names `seq`. */
export const Beat = v.object({
  kind: v.literal("beat"),
  seq: v.pipe(v.number(), v.integer(), v.minValue(0)),
  load: v.optional(LoadSample),
});

export const Refusal = v.object({ what: Text, why: Text, fix: Text });
export const Reply = v.object({
  kind: v.literal("answer"),
  id: Text,
  /** Exactly one of the two is there. */
  result: v.optional(v.unknown()),
  error: v.optional(Refusal),
});
export type Reply = v.InferOutput<typeof Reply>;

export const AgentMessage = v.variant("kind", [Hello, InventoryMessage, FindingsMessage, Beat, Reply]);
export type AgentMessage = v.InferOutput<typeof AgentMessage>;

export const Welcome = v.object({
  kind: v.literal("welcome"),
  protocol: v.pipe(v.number(), v.integer(), v.minValue(1)),
  server_version: Text,
  have: Have,
  beat_ms: v.pipe(v.number(), v.minValue(100), v.maxValue(60_000)),
});
export type Welcome = v.InferOutput<typeof Welcome>;

/** `duplicate` and `busy` pass by themselves; the others need a person, so the agent asks again rarely. */
export const RefuseCode = v.picklist(["protocol", "node", "revoked", "duplicate", "busy"]);
export type RefuseCode = v.InferOutput<typeof RefuseCode>;

/** In place of a welcome; the connection is closed after it. */
export const Refuse = v.object({ kind: v.literal("refuse"), code: v.fallback(RefuseCode, "busy"), what: Text, why: Text, fix: Text });
export type Refuse = v.InferOutput<typeof Refuse>;

export const Ack = v.object({ kind: v.literal("ack"), seq: v.optional(v.number()), have: Have });
export type Ack = v.InferOutput<typeof Ack>;

export const Question = v.variant("kind", [
  /** Whether anyone is there: any answer will do. */
  v.object({ kind: v.literal("alive") }),
  v.object({ kind: v.literal("doctor") }),
  /** From now on this credential counts; the old one does until the new one is used. */
  v.object({ kind: v.literal("rotate-credential"), credential: Text }),
]);
export type Question = v.InferOutput<typeof Question>;

/** A question that this agent does not know is answered with an error that says so. */
export const Ask = v.object({ kind: v.literal("ask"), id: Text, question: v.looseObject({ kind: Text }) });
export type Ask = v.InferOutput<typeof Ask>;

export const ServerMessage = v.variant("kind", [Welcome, Refuse, Ack, Ask]);
export type ServerMessage = v.InferOutput<typeof ServerMessage>;

export type Read<T> =
  | { readonly kind: "message"; readonly message: T }
  /** A newer peer says something that we do not know: ignored, and logged once. */
  | { readonly kind: "unknown"; readonly name: string }
  /** `problem` names path, found and expected, without the peer's text beyond a few words. */
  | { readonly kind: "malformed"; readonly problem: string };

/** Never throws, whatever the text. */
export function readAgentMessage(text: string): Read<AgentMessage> {
  return read(AgentMessage, ["hello", "inventory", "findings", "beat", "answer"], text);
}

/** Never throws, whatever the text. */
export function readServerMessage(text: string): Read<ServerMessage> {
  return read(ServerMessage, ["welcome", "refuse", "ack", "ask"], text);
}

function read<T>(schema: v.GenericSchema<unknown, T>, kinds: readonly string[], text: string): Read<T> {
  if (text.length > MAX_MESSAGE_BYTES) return { kind: "malformed", problem: `longer than ${MAX_MESSAGE_BYTES} bytes` };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "malformed", problem: "not JSON" };
  }
  if (typeof value !== "object" || value === null || !("kind" in value) || typeof value.kind !== "string") {
    return { kind: "malformed", problem: "not an object with a kind" };
  }
  if (!kinds.includes(value.kind)) return { kind: "unknown", name: value.kind.slice(0, 64) };
  const checked = v.safeParse(schema, value);
  if (checked.success) return { kind: "message", message: checked.output };
  const issue = checked.issues[0];
  const path = issue.path?.map((step) => String(step.key)).join(".") ?? "";
  return { kind: "malformed", problem: `${value.kind}${path === "" ? "" : ` at ${path}`}: ${issue.message.slice(0, 200)}` };
}
