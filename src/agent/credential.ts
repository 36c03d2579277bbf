/** `credential.json` in the agent's state folder: who this node is to its server. Written whole before anything is done with it. */
import * as v from "valibot";
import { NodeId } from "../domain/node.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { readWholeFile, writeWholeFile } from "../platform/state-files.ts";

export const CredentialFile = v.object({
  version: v.literal(1),
  server: v.string(),
  fingerprint: v.optional(v.string()),
  ca: v.optional(v.string()),
  node_id: NodeId,
  /** Chosen by this agent, or handed out by the server when it was rotated. */
  credential: v.string(),
  /** False from when it was chosen until the server has taken it. */
  joined: v.boolean(),
  cluster_id: v.optional(v.string()),
  /** A new one, which counts from its first use on. */
  next_credential: v.optional(v.string()),
});
export type CredentialFile = v.InferOutput<typeof CredentialFile>;

export interface CredentialStore {
  /** `undefined` when the node has never tried to join. Throws `UserError` for a file that cannot be used; it stays as it is. */
  read(): Promise<CredentialFile | undefined>;
  write(file: CredentialFile): Promise<void>;
}

export function credentialStore(stateDir: string): CredentialStore {
  const path = `${stateDir}/credential.json`;
  return {
    read: async () => {
      let text: string | undefined;
      try {
        text = await readWholeFile(path);
      } catch (cause) {
        throw unusable(path, messageOf(cause), "check its rights", cause);
      }
      return text === undefined ? undefined : parse(path, text);
    },
    write: async (file) => {
      try {
        await writeWholeFile(path, `${JSON.stringify(file, undefined, 2)}\n`, { mode: 0o600 });
      } catch (cause) {
        throw unusable(path, messageOf(cause), "check the rights of the folder and the space on its disk", cause);
      }
    },
  };
}

function parse(path: string, text: string): CredentialFile {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw unusable(path, "it is not JSON", REMOVE, cause);
  }
  const checked = v.safeParse(CredentialFile, value);
  if (checked.success) return checked.output;
  const version = typeof value === "object" && value !== null && "version" in value ? value.version : undefined;
  if (typeof version === "number" && version > 1)
    throw unusable(path, `it is of version ${version}, which a newer llmgw wrote`, "upgrade llmgw");
  throw unusable(path, `${v.getDotPath(checked.issues[0]) ?? "it"} does not fit: ${checked.issues[0].message}`, REMOVE);
}

const REMOVE = "move the file away and join again with a new token: llmgw ctl token create";

function unusable(path: string, why: string, fix: string, cause?: unknown): UserError {
  return new UserError({ what: `the node's credential in ${path} cannot be used`, why, fix }, { cause });
}
