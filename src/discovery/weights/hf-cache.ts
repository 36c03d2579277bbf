/**
 * One repository in a Hugging Face hub cache. Source: huggingface/huggingface_hub docs/source/en/guides/manage-cache.md,
 * src/huggingface_hub/_tree_cache.py (`trees/`, format 1).
 */
import * as v from "valibot";
import type { Weights } from "../../domain/inventory.ts";
import { printable } from "../../lib/printable.ts";
import { listFolder } from "./folder-listing.ts";
import { MAX_JSON_BYTES } from "./limits.ts";
import { JsonProblem, parseJson } from "./strict-json.ts";
import { lookAt, mtimeBelow, type Place, readProblem, readWhole, type Scan, type Unfinished } from "./weight-file.ts";
import { refuse, weightsRecord } from "./weights-record.ts";

/** `models--org--name` → `org/name`; a name may hold `--` itself, and old repositories have no organisation. */
export function repositoryId(folder: string): string | undefined {
  const parts = folder.split("--");
  if (parts[0] !== "models" || parts.length < 2 || parts.slice(1).join("") === "") return undefined;
  return parts.length === 2 ? parts[1] : `${parts[1]}/${parts.slice(2).join("--")}`;
}

export interface Snapshot {
  readonly dir: string;
  readonly place: Place;
}

/** The commits that a repository holds, that of `refs/main` first, or the record of one whose download has only begun. */
export async function readRepository(
  scan: Scan,
  dir: string,
  id: string,
): Promise<{ readonly snapshots: readonly Snapshot[]; readonly begun?: Weights }> {
  const [{ folders }, blobs, main] = await Promise.all([
    listFolder(scan, `${dir}/snapshots`),
    unfinishedBlobs(scan, dir),
    readMain(scan, dir),
  ]);
  if (folders.length === 0) return blobs.length === 0 ? { snapshots: [] } : { snapshots: [], begun: begunRecord(dir, id) };
  const dated = await Promise.all(
    folders.map(async (commit) => ({ commit, mtimeMs: await mtimeBelow(scan, `${dir}/snapshots`, [commit]) })),
  );
  const inOrder = dated.toSorted((a, b) => Number(b.commit === main) - Number(a.commit === main) || (b.mtimeMs ?? 0) - (a.mtimeMs ?? 0));
  const newest = Math.max(...dated.map(({ mtimeMs }) => mtimeMs ?? 0));
  const snapshots = inOrder.map(async ({ commit, mtimeMs }): Promise<Snapshot> => {
    const expected = await readTree(scan, dir, commit);
    // What is being fetched belongs to the newest commit; older ones are as whole as they will ever be.
    const state = mtimeMs === newest ? unfinished(blobs, newest, expected !== undefined) : "no";
    const place: Place = { layout: "hf-cache", name: id, revision: commit, unfinished: state };
    return { dir: `${dir}/snapshots/${commit}`, place: expected === undefined ? place : { ...place, expected } };
  });
  return { snapshots: await Promise.all(snapshots) };
}

function begunRecord(dir: string, id: string): Weights {
  const facts = { name: printable(id), layout: "hf-cache" as const, path: dir };
  return weightsRecord(facts, [], [refuse("nothing of it is complete yet")], true);
}

interface UnfinishedBlob {
  readonly mtimeMs: number;
  readonly locked: boolean;
}

/**
 * Downloads that left a `.incomplete` file and no finished blob. Older versions write `<hash>.incomplete`, newer ones
 * `<hash>.<8 hex>.incomplete`.
 */
async function unfinishedBlobs(scan: Scan, dir: string): Promise<readonly UnfinishedBlob[]> {
  const { files } = await listFolder(scan, `${dir}/blobs`);
  const finished = new Set(files);
  const found: UnfinishedBlob[] = [];
  for (const name of files) {
    const hash = /^(.+?)(?:\.[0-9a-f]{8})?\.incomplete$/.exec(name)?.[1];
    if (hash === undefined || finished.has(hash)) continue;
    const slash = dir.lastIndexOf("/");
    const lock = [".locks", dir.slice(slash + 1), `${hash}.lock`];
    const [mtimeMs, lockMs] = await Promise.all([mtimeBelow(scan, `${dir}/blobs`, [name]), mtimeBelow(scan, dir.slice(0, slash), lock)]);
    if (mtimeMs !== undefined) found.push({ mtimeMs, locked: lockMs !== undefined });
  }
  return found;
}

/**
 * A blob that grew after the snapshot was last touched is being fetched now. A lock file alone proves little, since it stays after
 * the download: it explains what is missing and does not overrule what is whole. Nor does anything where the commit's list is known.
 */
function unfinished(blobs: readonly UnfinishedBlob[], snapshotMs: number, listKnown: boolean): Unfinished {
  const newer = blobs.some((blob) => blob.mtimeMs >= snapshotMs);
  if (newer && !listKnown) return "certain";
  return newer || blobs.some((blob) => blob.locked) ? "maybe" : "no";
}

async function readMain(scan: Scan, dir: string): Promise<string | undefined> {
  const text = await readOptional(scan, dir, ["refs", "main"]);
  return /^[0-9a-f]{40}\s*$/.test(text ?? "") ? text?.trim() : undefined;
}

const Size = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const Tree = v.object({
  format_version: v.literal(1),
  files: v.record(v.string(), v.object({ size: Size, lfs_size: v.nullish(Size) })),
});

/** File sizes of a commit by path; `undefined` without a list that we understand. The size in LFS is the real one. */
async function readTree(scan: Scan, dir: string, commit: string): Promise<ReadonlyMap<string, number> | undefined> {
  const text = await readOptional(scan, dir, ["trees", `${commit}.json`]);
  if (text === undefined) return undefined;
  try {
    const parsed = v.safeParse(Tree, parseJson(text, { repeated: "last" }));
    if (!parsed.success) return undefined;
    return new Map(Object.entries(parsed.output.files).map(([path, file]) => [path, file.lfs_size ?? file.size]));
  } catch (thrown) {
    if (thrown instanceof JsonProblem) return undefined;
    throw thrown;
  }
}

/** A small file that need not be there. */
async function readOptional(scan: Scan, dir: string, steps: readonly string[]): Promise<string | undefined> {
  if ((await mtimeBelow(scan, dir, steps)) === undefined) return undefined;
  const name = steps.join("/");
  const file = await lookAt(scan, `${dir}/${name}`, name);
  if (file.kind === "bad") return undefined;
  try {
    return await readWhole(scan, file, MAX_JSON_BYTES);
  } catch (thrown) {
    readProblem(thrown);
    return undefined;
  }
}
