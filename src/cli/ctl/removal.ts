/** Taking something away for good: looked for first, asked on a terminal, and only tried with `--dry-run`. */
import { UserError } from "../../lib/user-error.ts";
import { Done } from "../../protocol/api.ts";
import type { Answer } from "../command.ts";
import type { Context } from "../context.ts";
import { ask } from "./client.ts";
import { connect, type Remote } from "./connect.ts";
import type { RemovalArgs, ServerArgs } from "./flags.ts";

export interface Removal {
  readonly path: string;
  /** `node gpu-01`. */
  readonly thing: string;
  /** What removing it means, as a half sentence. Throws `UserError` when there is no such thing. */
  readonly find: (remote: Remote) => Promise<string>;
}

export async function removal(ctx: Context, args: RemovalArgs & ServerArgs, { path, thing, find }: Removal): Promise<Answer> {
  const remote = await connect(ctx, args);
  const meaning = await find(remote);
  if (args["dry-run"] === true) {
    return { data: { done: false, dry_run: true }, text: `would remove ${thing}: ${meaning}; nothing was changed` };
  }
  if (args.yes !== true && !(await agreed(ctx, `Remove ${thing}? ${upper(meaning)}. [y/N] `, thing))) {
    return { data: { done: false }, text: `${thing} stays`, exitCode: 1 };
  }
  const data = await ask(ctx, remote, { method: "DELETE", path, answer: Done });
  return { data, text: `${thing} is removed` };
}

async function agreed(ctx: Context, question: string, thing: string): Promise<boolean> {
  const answer = await ctx.ask(question);
  if (answer !== undefined) return /^y(?:es)?$/i.test(answer);
  ctx.signal.throwIfAborted();
  throw new UserError({
    what: `${thing} was not removed`,
    why: "nobody is there to be asked",
    fix: "add --yes, or look first with --dry-run",
  });
}

function upper(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
