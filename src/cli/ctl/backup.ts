/** `llmgw ctl backup FILE`: the server's database, copied while it runs. The file holds hashes of secrets and is its owner's alone. */
import { resolve } from "node:path";
import { messageOf, UserError } from "../../lib/user-error.ts";
import { isThere, writeWholeFile } from "../../platform/state-files.ts";
import { defineCommand } from "../command.ts";
import { askFile } from "./client.ts";
import { connect } from "./connect.ts";
import { SERVER_FLAGS } from "./flags.ts";

/** A large store takes its time on the way. */
const TIMEOUT_MS = 10 * 60_000;
/** First bytes of every database file (sqlite.org/fileformat2.html, 1.3.1). */
const MAGIC = "SQLite format 3\0";

export const backup = defineCommand({
  name: "backup",
  summary: "copies the server's database into a file",
  description: "The server goes on meanwhile. To restore, stop it, put the file in place of store.db in its state folder, and start it.",
  flags: { force: { kind: "boolean", summary: "replace a file that is there" }, ...SERVER_FLAGS },
  positionals: [{ name: "FILE", summary: "where to write it", required: true }],
  examples: ["llmgw ctl backup ./llmgw-2026-11-30.db"],
  run: async (ctx, args, [word = ""]) => {
    const file = resolve(word);
    const force = args.force === true;
    await refuseTaken(file, force);
    const remote = await connect(ctx, args);
    const progress = ctx.progress("the server copies its database");
    const bytes = await askFile(ctx, remote, { method: "GET", path: "/backup", timeoutMs: TIMEOUT_MS }).finally(() => progress.done());
    if (!Buffer.from(bytes.subarray(0, MAGIC.length)).equals(Buffer.from(MAGIC))) {
      throw new UserError(
        {
          what: `what ${remote.url} sent is no backup`,
          why: "it does not begin as a SQLite database does",
          fix: "check that the address is that of llmgw server",
        },
        { exitCode: 1 },
      );
    }
    // Somebody may have written it while the answer was on its way.
    await refuseTaken(file, force);
    await write(file, bytes);
    return { data: { file, size_bytes: bytes.length }, text: `the database is in ${file}, ${bytes.length} bytes` };
  },
});

async function refuseTaken(file: string, force: boolean): Promise<void> {
  if (force) return;
  let taken: boolean;
  try {
    taken = await isThere(file);
  } catch (cause) {
    throw cannotWrite(file, cause);
  }
  if (taken)
    throw new UserError({ what: `${file} is there already`, why: "a backup would replace it", fix: "give another name, or add --force" });
}

async function write(file: string, bytes: Uint8Array): Promise<void> {
  try {
    await writeWholeFile(file, bytes, { mode: 0o600 });
  } catch (cause) {
    throw cannotWrite(file, cause);
  }
}

function cannotWrite(file: string, cause: unknown): UserError {
  const fix = "give a place where this user may write and there is room";
  return new UserError({ what: `${file} cannot be written`, why: messageOf(cause), fix }, { cause });
}
