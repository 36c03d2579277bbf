/** What doctor judges of the way to the control plane: seen from this node, with the trust that its agent has. */
import type { ControlPlaneFacts } from "../doctor/facts.ts";
import { UserError } from "../lib/user-error.ts";
import { type Reached, reach } from "../platform/reach.ts";
import { credentialStore } from "./credential.ts";
import type { ServerPlace } from "./join.ts";

/** `nowMs` is this node's clock. */
export async function controlPlaneFacts(server: ServerPlace, nowMs: () => number, signal?: AbortSignal): Promise<ControlPlaneFacts> {
  return factsOf(server.url, await reach(server.url, server.trust, signal), nowMs());
}

/** The server that the node with this state folder has joined; `undefined` when it has not, or its credential may not be read. */
export async function joinedPlace(stateDir: string): Promise<ServerPlace | undefined> {
  try {
    const known = await credentialStore(stateDir).read();
    if (known?.joined !== true) return undefined;
    return { url: known.server, trust: { fingerprint: known.fingerprint, ca: known.ca } };
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

/** The `Date` of an answer is cut to the second: on average it lags by half of one. */
const DATE_LAG_MS = 500;

export function factsOf(url: string, { failed, certificate, serverTimeMs }: Reached, nowMs: number): ControlPlaneFacts {
  return {
    address: new URL(url).host,
    failed,
    certificates: certificate === undefined ? [] : [{ who: "the server", from_ms: certificate.from_ms, until_ms: certificate.until_ms }],
    encrypted: url.startsWith("https:"),
    callback: undefined,
    clock_offset_ms: serverTimeMs === undefined ? undefined : nowMs - serverTimeMs - DATE_LAG_MS,
  };
}
