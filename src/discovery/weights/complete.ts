/**
 * Is a model all there? The rules of reference/weights.md, section 2, on values: no file is opened here.
 */
import * as v from "valibot";
import { listed, printable } from "../../lib/printable.ts";
import { messageOf } from "../../lib/user-error.ts";
import { SAFETENSORS } from "./limits.ts";
import { parseJson } from "./strict-json.ts";

/** The size that a git-lfs pointer promises, bytes; `undefined` when the bytes are something else. Source: git-lfs docs/spec.md. */
export function lfsPromise(bytes: Uint8Array): number | undefined {
  const text = new TextDecoder().decode(bytes);
  if (!text.startsWith("version https://git-lfs") || !/^oid sha256:[0-9a-f]+\s*$/m.test(text)) return undefined;
  const size = /^size ([0-9]{1,15})\s*$/m.exec(text)?.[1];
  return size === undefined ? undefined : Number(size);
}

/** What is wrong with a file's length; `exact` for safetensors, whose reader refuses longer files too. */
export function lengthProblem(name: string, size: number, needed: number, exact: boolean): string | undefined {
  if (size < needed) return `${printable(name)}: cut off: has ${size} bytes, needs ${needed}`;
  if (size > needed && exact) return `${printable(name)}: too long: has ${size} bytes, its header ends at ${needed}`;
  return undefined;
}

const NUMBERED = /^(.*)-([0-9]{5})-of-([0-9]{5})\.([a-z]+)$/;

/** The parts of `prefix-00001-of-00004.ending`, or `undefined` for any other name. */
export function numbered(name: string): { readonly prefix: string; readonly part: number; readonly total: number } | undefined {
  const match = NUMBERED.exec(name);
  return match === null ? undefined : { prefix: match[1] ?? "", part: Number(match[2]), total: Number(match[3]) };
}

/** What is missing among files that count themselves: every part from 1 to the total. */
export function numberingProblems(names: readonly string[]): readonly string[] {
  const groups = new Map<string, Set<number>>();
  for (const name of names) {
    const parts = numbered(name);
    if (parts === undefined) continue;
    const key = name.replace(/-[0-9]{5}-of-/, "-#####-of-");
    groups.set(key, (groups.get(key) ?? new Set()).add(parts.part));
  }
  const problems: string[] = [];
  for (const [pattern, parts] of groups) {
    const total = Number(/-of-([0-9]{5})\./.exec(pattern)?.[1]);
    if (total > SAFETENSORS.shards) {
      problems.push(`${printable(pattern)}: ${total} shards are more than ${SAFETENSORS.shards}`);
      continue;
    }
    const all = Array.from({ length: total }, (_, index) => index + 1);
    const missing = all.filter((part) => !parts.has(part)).map((part) => pattern.replace("#####", String(part).padStart(5, "0")));
    if (missing.length > 0) problems.push(`${missing.length} of ${total} shards missing: ${listed(missing)}`);
    const beyond = [...parts].filter((part) => part < 1 || part > total);
    if (beyond.length > 0) problems.push(`${printable(pattern)}: shard ${beyond.join(", ")} of ${total} cannot be`);
  }
  return problems;
}

const Index = v.object({
  metadata: v.fallback(v.optional(v.object({ total_size: v.fallback(v.optional(v.number()), undefined) })), undefined),
  weight_map: v.record(v.string(), v.string()),
});

/** `model.safetensors.index.json`: which file holds which tensor. */
export interface ShardIndex {
  /** The files that it names, sorted. All are plain names: nothing here leads out of the folder. */
  readonly files: readonly string[];
  /** Tensor → file. */
  readonly placed: ReadonlyMap<string, string>;
  readonly total_bytes: number | undefined;
}

/** Parses an index. Returns the words for what is wrong instead: a name with a path in it is refused, not resolved. */
export function parseShardIndex(text: string): ShardIndex | string {
  let value: unknown;
  try {
    value = parseJson(text, { repeated: "refuse" });
  } catch (thrown) {
    return `not JSON: ${messageOf(thrown)}`;
  }
  const parsed = v.safeParse(Index, value);
  if (!parsed.success) return "has no weight_map of tensor names to file names";
  const placed = new Map(Object.entries(parsed.output.weight_map));
  const files = [...new Set(placed.values())].sort();
  const wrong = files.filter((file) => !isPlainName(file));
  if (wrong.length > 0) return `names files that are not plain .safetensors names: ${listed(wrong)}`;
  if (files.length > SAFETENSORS.shards) return `names ${files.length} files, more than ${SAFETENSORS.shards}`;
  return { files, placed, total_bytes: parsed.output.metadata?.total_size };
}

function isPlainName(name: string): boolean {
  return /^[^./\\\0][^/\\\0]*\.safetensors$/.test(name) && name.length <= 255;
}

/** What a split GGUF says of itself against what was found; each `undefined` was not in the header. */
export interface GgufShardFacts {
  readonly name: string;
  /** From the file name, counting from 1. */
  readonly part: number;
  readonly split_no: number | undefined;
  readonly split_count: number | undefined;
  readonly split_tensors: number | undefined;
  readonly tensors: number;
  readonly architecture: string | undefined;
}

/** Checks the headers of a split GGUF against one another. Source: llama.cpp tools/gguf-split, which counts `split.no` from 0. */
export function ggufSplitProblems(shards: readonly GgufShardFacts[], total: number): readonly string[] {
  const problems: string[] = [];
  for (const shard of shards) {
    const name = printable(shard.name);
    if (shard.split_count !== undefined && shard.split_count !== total) {
      problems.push(`${name}: its header says ${shard.split_count} shards, its name ${total}`);
    }
    if (shard.split_no !== undefined && shard.split_no !== shard.part - 1) {
      problems.push(`${name}: its header says shard ${shard.split_no + 1}, its name ${shard.part}`);
    }
  }
  const promised = shards.find((shard) => shard.split_tensors !== undefined)?.split_tensors;
  const found = shards.reduce((sum, shard) => sum + shard.tensors, 0);
  if (shards.length === total && promised !== undefined && promised !== found) {
    problems.push(`its shards hold ${found} tensors, the header promises ${promised}`);
  }
  const architectures = new Set(shards.flatMap((shard) => shard.architecture ?? []));
  if (architectures.size > 1) problems.push(`its shards are of different architectures: ${listed([...architectures])}`);
  return problems;
}
