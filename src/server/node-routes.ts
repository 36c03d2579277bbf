/** Nodes as the API shows and changes them, and what is asked of their agents. */
import * as v from "valibot";
import { DoctorReport, Finding } from "../domain/finding.ts";
import { Inventory } from "../domain/inventory.ts";
import { compact } from "../lib/compact.ts";
import { CordonBody, type Events, type NodeDetail } from "../protocol/api.ts";
import { hashSecret, newSecret } from "../protocol/secrets.ts";
import { fabricViews } from "./fabrics.ts";
import { ApiRefusal, noSuchNode } from "./refusals.ts";
import { type ApiOptions, bodyOf, type Call, DONE, momentOf, note, type Route } from "./route.ts";
import type { AskOutcome } from "./sessions.ts";
import { type FullNodeView, listed, nodeView, statusOf, timeOf } from "./views.ts";

export function nodeRoutes(options: ApiOptions): readonly Route[] {
  const { store, sessions, clock } = options;
  const views = async (): Promise<readonly FullNodeView[]> => {
    const moment = momentOf(options);
    return (await store.nodes()).map((row) => nodeView(row, moment));
  };
  const cordon = (cordoned: boolean) => async (call: Call) => {
    const { reason } = cordoned ? await bodyOf(call.request, CordonBody) : {};
    if (!(await store.setCordon(call.id, { cordoned, draining: false, reason }))) throw noSuchNode(call.id);
    await note(options, call, cordoned ? "node cordoned" : "node uncordoned", call.id, reason);
    return DONE;
  };
  return [
    {
      method: "GET",
      path: "/nodes",
      role: "viewer",
      run: async () => ({ nodes: (await views()).map(listed), now: timeOf(clock.nowMs()) }),
    },
    { method: "GET", path: "/nodes/:id", role: "viewer", run: (call) => nodeDetail(options, call.id) },
    {
      method: "DELETE",
      path: "/nodes/:id",
      role: "admin",
      run: async (call) => {
        if (!(await store.removeNode(call.id))) throw noSuchNode(call.id);
        sessions.drop(call.id);
        await note(options, call, "node removed", call.id);
        return DONE;
      },
    },
    { method: "POST", path: "/nodes/:id/cordon", role: "admin", run: cordon(true) },
    { method: "POST", path: "/nodes/:id/uncordon", role: "admin", run: cordon(false) },
    {
      method: "POST",
      path: "/nodes/:id/rotate",
      role: "admin",
      run: async (call) => {
        await rotate(options, call);
        await note(options, call, "credential handed out", call.id);
        return DONE;
      },
    },
    { method: "POST", path: "/nodes/:id/doctor", role: "viewer", run: (call) => askDoctor(options, call) },
    {
      method: "GET",
      path: "/status",
      role: "viewer",
      run: async () => ({
        server: {
          version: options.version,
          cluster_id: await store.clusterId(),
          started_at: timeOf(options.listeningSinceMs),
          now: timeOf(clock.nowMs()),
          store: store.label,
        },
        ...statusOf(await views()),
      }),
    },
    {
      method: "GET",
      path: "/fabrics",
      role: "viewer",
      run: async () => fabricViews((await views()).filter((node) => node.state !== "lost")),
    },
    { method: "GET", path: "/events", role: "viewer", run: (call) => events(options, call) },
  ];
}

async function nodeDetail(options: ApiOptions, nodeId: string): Promise<NodeDetail> {
  const { store, sessions } = options;
  const row = await store.node(nodeId);
  if (row === undefined) throw noSuchNode(nodeId);
  const [inventory, findings] = await Promise.all([store.report(nodeId, "inventory"), store.report(nodeId, "findings")]);
  return {
    node: listed(nodeView(row, momentOf(options))),
    now: timeOf(options.clock.nowMs()),
    ...compact({
      inventory: stored(Inventory, inventory?.body),
      inventory_revision: inventory?.stored.revision,
      findings: stored(v.array(Finding), findings?.body),
      load: sessions.live(nodeId)?.load,
    }),
  };
}

/** What an older version stored may not fit any more; the agent sends it anew in its own time. */
function stored<T>(schema: v.GenericSchema<unknown, T>, body: string | undefined): T | undefined {
  if (body === undefined) return undefined;
  const checked = v.safeParse(schema, JSON.parse(body));
  return checked.success ? checked.output : undefined;
}

const ASK_MS = 10_000;
/** A doctor's run ends within 15 s. */
const DOCTOR_MS = 20_000;

async function rotate(options: ApiOptions, call: Call): Promise<void> {
  const { store, sessions } = options;
  if ((await store.node(call.id)) === undefined) throw noSuchNode(call.id);
  // Asked before it is offered: a node that is not there must not be left with a second credential.
  if (sessions.live(call.id) === undefined) throw notConnected(call.id);
  const credential = newSecret("node", options.random);
  await store.offerCredential(call.id, hashSecret(credential));
  resultOf(
    call.id,
    await sessions.ask(call.id, { kind: "rotate-credential", credential }, { timeoutMs: ASK_MS, signal: call.request.signal }),
  );
}

async function askDoctor({ store, sessions }: ApiOptions, call: Call): Promise<DoctorReport> {
  if ((await store.node(call.id)) === undefined) throw noSuchNode(call.id);
  const outcome = await sessions.ask(call.id, { kind: "doctor" }, { timeoutMs: DOCTOR_MS, signal: call.request.signal });
  const checked = v.safeParse(DoctorReport, resultOf(call.id, outcome));
  if (checked.success) return checked.output;
  throw new ApiRefusal(502, {
    what: `the agent of "${call.id}" answers what this server does not understand`,
    why: v.getDotPath(checked.issues[0]) ?? checked.issues[0].message,
    fix: "bring server and agent to one version",
  });
}

function resultOf(nodeId: string, outcome: AskOutcome): unknown {
  switch (outcome.kind) {
    case "answer":
      return outcome.result;
    case "error":
      throw new ApiRefusal(502, outcome.error);
    case "not-connected":
      throw notConnected(nodeId);
    case "timeout":
      throw new ApiRefusal(504, {
        what: `the agent of "${nodeId}" does not answer`,
        why: "it is connected and has not answered in time",
        fix: "look at the agent's log on the node, or ask again",
      });
    default:
      return outcome satisfies never;
  }
}

function notConnected(nodeId: string): ApiRefusal {
  return new ApiRefusal(409, {
    what: `the node "${nodeId}" is not connected`,
    why: "its agent has no stream to this server at this moment",
    fix: `see when it was last heard: llmgw ctl nodes show ${nodeId}`,
  });
}

async function events({ store }: ApiOptions, call: Call): Promise<Events> {
  const limit = numberOf(call.url.searchParams.get("limit"), 100, 1_000);
  const node = call.url.searchParams.get("node") ?? undefined;
  const found = await store.events(limit, node);
  return { events: found.map(({ at_ms, node_id, message, detail }) => ({ at: timeOf(at_ms), message, ...compact({ node_id, detail }) })) };
}

function numberOf(text: string | null, usual: number, max: number): number {
  if (text === null) return usual;
  const number = Number(text);
  if (Number.isInteger(number) && number >= 1) return Math.min(number, max);
  throw new ApiRefusal(400, {
    what: `limit=${text.slice(0, 40)} is no number of events`,
    why: "it takes 1 to 1000",
    fix: "leave it out for 100",
  });
}
