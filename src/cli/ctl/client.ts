/** Asks the server and turns every kind of no into words for a person. Texts of nodes come from strangers: all are made printable. */
import { printableAll, printableWhole } from "../../lib/printable.ts";
import { type Explanation, messageOf, UserError } from "../../lib/user-error.ts";
import { type ApiCall, type ApiOutcome, callApi, fetchFile } from "../../protocol/client.ts";
import type { Context } from "../context.ts";
import type { Remote } from "./connect.ts";
import { ServerAway } from "./server-away.ts";

/** What the server answers. Throws `UserError`; a `ServerAway` when asking again may help. */
export async function ask<T>(ctx: Pick<Context, "signal">, remote: Remote, call: Omit<ApiCall<T>, "signal">): Promise<T> {
  return printableAll(accepted(remote, await callApi(remote, { ...call, signal: ctx.signal })));
}

/** The same for an answer that is a file. */
export async function askFile(ctx: Pick<Context, "signal">, remote: Remote, call: Parameters<typeof fetchFile>[1]): Promise<Uint8Array> {
  let outcome: ApiOutcome<Uint8Array>;
  try {
    outcome = await fetchFile(remote, { ...call, signal: ctx.signal });
  } catch (cause) {
    if (ctx.signal.aborted) throw cause;
    throw ServerAway.unreachable(remote, `the answer broke off: ${messageOf(cause)}`);
  }
  return accepted(remote, outcome);
}

function accepted<T>(remote: Remote, outcome: ApiOutcome<T>): T {
  switch (outcome.kind) {
    case "ok":
      return outcome.value;
    case "refused":
      throw refusal(remote, outcome.status, printableAll(outcome.error));
    case "unreachable":
      throw ServerAway.unreachable(remote, outcome.problem);
    case "strange":
      throw new UserError(
        {
          what: `what answers at ${remote.url} is not understood`,
          why: `${printableWhole(outcome.problem)} (its address comes from ${remote.from})`,
          fix: "check that the address is that of llmgw server, and bring both to one version",
        },
        { exitCode: 1 },
      );
    default:
      return outcome satisfies never;
  }
}

/** The server's own words. 2 where the credential or the question is wrong, 1 where the answer is no. */
function refusal(remote: Remote, status: number, { what, why, fix }: Explanation): UserError {
  if (status === 401) return new UserError({ what, why: `${why} (the token comes from ${remote.tokenFile})`, fix });
  if (status === 400 || status === 403) return new UserError({ what, why, fix });
  if (status === 429 || status >= 500) return new ServerAway({ what, why, fix });
  return new UserError({ what, why, fix }, { exitCode: 1 });
}
