/** A no of the API: status and words. Thrown inside a request and turned into its answer at one place. */
import { type Explanation, messageOf, UserError } from "../lib/user-error.ts";
import { StoreError } from "./store/store.ts";

export class ApiRefusal extends Error {
  override readonly name = "ApiRefusal";
  readonly status: number;
  readonly explanation: Explanation;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, explanation: Explanation, headers: Readonly<Record<string, string>> = {}) {
    super(explanation.what);
    this.status = status;
    this.explanation = explanation;
    this.headers = headers;
  }
}

export function refusalResponse({ status, explanation, headers }: ApiRefusal): Response {
  const { what, why, fix } = explanation;
  return Response.json({ error: { what, why, fix } }, { status, headers });
}

export function noSuchNode(nodeId: string): ApiRefusal {
  return new ApiRefusal(404, { what: `there is no node "${nodeId}"`, why: "none of that name has joined", fix: "see: llmgw ctl nodes" });
}

export function nothing(what: string, id: string, list: string): ApiRefusal {
  return new ApiRefusal(404, { what: `there is no ${what} "${id}"`, why: "none has this id", fix: `see: ${list}` });
}

export function limited(retryAfterS: number): ApiRefusal {
  const explanation = {
    what: "too many failed attempts from this address",
    why: "secrets that do not count were sent again and again",
    fix: `correct the secret, and try again in ${retryAfterS} s`,
  };
  return new ApiRefusal(429, explanation, { "retry-after": String(retryAfterS) });
}

/** A database that does not work is no fault of whoever asks; a bug of ours says nothing about itself to strangers. */
export function refusalOf(error: unknown): ApiRefusal | undefined {
  if (error instanceof ApiRefusal) return error;
  if (!(error instanceof StoreError)) return undefined;
  switch (error.kind) {
    case "unreachable":
    case "full":
    case "damaged":
    case "newer":
    case "failed":
      return new ApiRefusal(503, { what: "the server cannot use its database", why: error.message, fix: STORE_FIX[error.kind] });
    default:
      return error.kind satisfies never;
  }
}

export const STORE_FIX = {
  unreachable: "check that the database runs and lets this server in; nothing is lost, and agents go on by themselves",
  full: "make room on the disk of the database; nothing is lost, and it goes on by itself then",
  damaged: "stop the server, put the file aside and start from a backup made with: llmgw ctl backup FILE",
  newer: "upgrade this server, or restore a backup made with this version",
  failed: "look at the server's log",
} as const;

/** A state folder that cannot be used. */
export function stateProblem(folder: string, cause: unknown): UserError {
  const fix = "check its rights and the space on its disk, or give another folder with --state DIR";
  return new UserError({ what: `the state folder ${folder} cannot be used`, why: messageOf(cause), fix }, { cause });
}
