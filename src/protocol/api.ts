/**
 * The HTTP interface below `/api/v1`, as `llmgw ctl` uses it: JSON bodies, `Authorization: Bearer TOKEN`. Times are ISO 8601 in UTC.
 * Refusals of any kind are `{ "error": { what, why, fix } }` with a status that fits; what `ctl` prints is exactly that.
 *
 * | request | role | answer |
 * | --- | --- | --- |
 * | GET /healthz | - | 200 "ok" while the process lives |
 * | GET /readyz | - | 200 when the store answers and the server is not stopping, else 503 with the reason |
 * | GET /metrics | viewer | Prometheus text |
 * | POST /api/v1/join | join token | JoinAnswer |
 * | GET /api/v1/stream | a node | the WebSocket of version.ts |
 * | GET /api/v1/status | viewer | Status |
 * | GET /api/v1/nodes | viewer | Nodes |
 * | GET /api/v1/nodes/ID | viewer | NodeDetail |
 * | DELETE /api/v1/nodes/ID | admin | Done |
 * | POST /api/v1/nodes/ID/cordon, …/uncordon | admin | Done |
 * | POST /api/v1/nodes/ID/rotate | admin | Done |
 * | POST /api/v1/nodes/ID/doctor | viewer | DoctorReport, from the agent itself |
 * | GET /api/v1/fabrics | viewer | Fabrics |
 * | GET /api/v1/events?limit=N&node=ID | viewer | Events |
 * | GET, POST /api/v1/tokens; DELETE /api/v1/tokens/ID | admin | Tokens, NewToken, Done |
 * | GET, POST /api/v1/operators; DELETE /api/v1/operators/ID | admin | Operators, NewOperator, Done |
 * | GET /api/v1/backup | admin | application/vnd.sqlite3 |
 */
import * as v from "valibot";
import { Finding } from "../domain/finding.ts";
import { Inventory } from "../domain/inventory.ts";
import { LoadSample } from "../domain/load-sample.ts";
import { BriefSummary, NodeId, NodeState, ProblemCounts } from "../domain/node.ts";
import { Refusal } from "./messages.ts";

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Text = v.string();
const Time = v.pipe(v.string(), v.description("ISO 8601, UTC"));

export const API_PREFIX = "/api/v1";

export const ErrorBody = v.object({ error: Refusal });
export type ErrorBody = v.InferOutput<typeof ErrorBody>;

export const Done = v.object({ done: v.literal(true) });
export type Done = v.InferOutput<typeof Done>;

/** The agent chooses its credential itself and sends its hash: the secret never crosses the wire in this direction. */
export const JoinRequestBody = v.object({
  token: Text,
  node_id: NodeId,
  credential_hash: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/, "64 hex digits")),
});
export type JoinRequestBody = v.InferOutput<typeof JoinRequestBody>;

export const JoinAnswer = v.object({ cluster_id: Text, node_id: NodeId });
export type JoinAnswer = v.InferOutput<typeof JoinAnswer>;

export const NodeView = v.object({
  node_id: NodeId,
  state: NodeState,
  connected: v.boolean(),
  cordoned: v.boolean(),
  cordon_reason: v.optional(Text),
  draining: v.boolean(),
  joined_at: Time,
  last_seen_at: v.optional(Time),
  hostname: v.optional(Text),
  mgmt_addr: v.optional(Text),
  agent_version: v.optional(Text),
  machine: v.optional(v.pipe(Text, v.description("The recorded machine that stands for its hardware"))),
  /** Absent until the first inventory arrived. */
  summary: v.optional(BriefSummary),
  /** Absent until the first findings arrived. */
  problems: v.optional(ProblemCounts),
});
export type NodeView = v.InferOutput<typeof NodeView>;

/** The server's clock at the answer, so that ages do not depend on the clock of whoever looks. */
const Now = v.optional(v.pipe(Time, v.description("The server's clock")));

export const Nodes = v.object({ nodes: v.array(NodeView), now: Now });
export type Nodes = v.InferOutput<typeof Nodes>;

export const NodeDetail = v.object({
  node: NodeView,
  inventory: v.optional(Inventory),
  inventory_revision: v.optional(Count),
  findings: v.optional(v.array(Finding)),
  load: v.optional(LoadSample),
  now: Now,
});
export type NodeDetail = v.InferOutput<typeof NodeDetail>;

export const Status = v.object({
  server: v.object({
    version: Text,
    cluster_id: Text,
    started_at: Time,
    now: Time,
    store: v.pipe(Text, v.description("Kind and place of the database")),
    open_access: v.optional(v.boolean()),
  }),
  nodes: v.object({ ready: Count, late: Count, lost: Count, cordoned: Count, draining: Count }),
  devices: v.pipe(v.array(v.object({ class: Text, count: Count, healthy: Count })), v.description("Of nodes that are not lost")),
  problems: ProblemCounts,
  fabrics: v.array(v.object({ fabric: Text, nodes: Count, contradictions: Count })),
  /** What a person should look at, in words, the worst first. */
  attention: v.array(Text),
});
export type Status = v.InferOutput<typeof Status>;

export const FabricPort = v.object({
  node_id: NodeId,
  adapter: Text,
  port: Count,
  state: v.optional(Text),
  rate_gbps: v.optional(v.number()),
  link_layer: v.optional(Text),
  gid_prefix: v.optional(Text),
  lid: v.optional(Count),
  sm_lid: v.optional(Count),
});
export type FabricPort = v.InferOutput<typeof FabricPort>;

export const FabricView = v.object({
  fabric: v.pipe(Text, v.description("The name declared in agent.yaml of its nodes")),
  ports: v.array(FabricPort),
  contradictions: v.pipe(v.array(Text), v.description("What proves that these ports are not on one fabric, in words")),
});
export type FabricView = v.InferOutput<typeof FabricView>;

export const Fabrics = v.object({
  fabrics: v.array(FabricView),
  /** ACTIVE ports whose fabric nobody declared: they host no replica of several nodes. */
  undeclared: v.array(FabricPort),
});
export type Fabrics = v.InferOutput<typeof Fabrics>;

export const EventView = v.object({ at: Time, node_id: v.optional(Text), message: Text, detail: v.optional(Text) });
export const Events = v.object({ events: v.array(EventView) });
export type Events = v.InferOutput<typeof Events>;

export const CordonBody = v.object({ reason: v.optional(v.pipe(Text, v.maxLength(500))) });

export const NewTokenBody = v.object({
  ttl_s: v.optional(v.pipe(v.number(), v.minValue(1), v.maxValue(366 * 86_400))),
  uses: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(10_000))),
});
export const TokenView = v.object({ token_id: Text, created_at: Time, expires_at: Time, uses_left: Count, created_by: Text });
export const Tokens = v.object({ tokens: v.array(TokenView), now: Now });
export type Tokens = v.InferOutput<typeof Tokens>;
/** The one moment at which the secret is seen. */
export const NewToken = v.object({
  token: TokenView,
  secret: Text,
  server: v.pipe(Text, v.description("URL to join at")),
  fingerprint: v.optional(v.pipe(Text, v.description("sha256:… of the certificate, when no authority vouches for it"))),
});
export type NewToken = v.InferOutput<typeof NewToken>;

export const RoleName = v.picklist(["admin", "viewer"]);
export const NewOperatorBody = v.object({ name: v.pipe(Text, v.minLength(1), v.maxLength(100)), role: RoleName });
export const OperatorView = v.object({ operator_id: Text, name: Text, role: RoleName, created_at: Time });
export const Operators = v.object({ operators: v.array(OperatorView) });
export type Operators = v.InferOutput<typeof Operators>;
export const NewOperator = v.object({ operator: OperatorView, secret: Text });
export type NewOperator = v.InferOutput<typeof NewOperator>;
