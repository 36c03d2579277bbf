/** `server.json` in the state folder of a server: how programs of the same machine find it. Written at each start. */
import * as v from "valibot";

export const LOCAL_SERVER_FILE = "server.json";
/** The first admin's secret, beside it, readable by its owner only. */
export const ADMIN_TOKEN_FILE = "admin.token";

export const LocalServer = v.object({
  version: v.literal(1),
  url: v.string(),
  /** `sha256:…` of its certificate, when no authority vouches for it. */
  fingerprint: v.optional(v.string()),
});
export type LocalServer = v.InferOutput<typeof LocalServer>;
