/**
 * The header of a GGUF file: key-value pairs, then where each tensor lies. Token lists are stepped over, the data is never read.
 * Source: ggml-org/ggml docs/gguf.md, src/gguf.cpp; limits: `limits.ts`.
 */

import { printable } from "../../lib/printable.ts";
import { GGUF_TENSOR_TYPES, NEWEST_TENSOR_TYPE, REMOVED_TENSOR_TYPES } from "./gguf-types.ts";
import { GgufWindow } from "./gguf-window.ts";
import { type ByteSource, HeaderProblem, type HeaderVerdict, verdictOf } from "./header-problem.ts";
import { GGUF as LIMITS } from "./limits.ts";

/** 64-bit values are bigint, also small ones. */
export type GgufScalar = number | bigint | boolean | string;
export type GgufValue =
  | { readonly kind: "scalar"; readonly value: GgufScalar }
  /** `items` only for short lists of numbers and truth values; the vocabulary is counted and not kept. */
  | { readonly kind: "list"; readonly count: number; readonly items?: readonly GgufScalar[] }
  | { readonly kind: "long-text"; readonly size_bytes: number };

export interface GgufTensor {
  readonly name: string;
  readonly type: number;
  /** The first dimension changes fastest. */
  readonly dimensions: readonly number[];
  /** Counted from the start of the data. */
  readonly offset: number;
  readonly elements: number;
  /** Absent for a type that is newer than our table. */
  readonly size_bytes: number | undefined;
}

export interface GgufTotals {
  readonly tensors: number;
  readonly elements: number;
  readonly size_bytes: number;
}

export interface GgufHeader {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: number;
  /** Elements of all tensors; quantized ones count elements, so this is the exact number of parameters. */
  readonly elements: number;
  /** By type id. */
  readonly types: ReadonlyMap<number, GgufTotals>;
  /** Ids above our table: their sizes are not known, so `needed_bytes` leaves them out. */
  readonly newer_types: readonly number[];
  readonly data_start: number;
  /** End of the last tensor: the file must be at least this long. */
  readonly needed_bytes: number;
  /** SHA-256 over the header. */
  readonly sha256: string;
}

const SIZES: ReadonlyMap<number, number> = new Map([
  ...[0, 1, 7].map((type) => [type, 1] as const),
  ...[2, 3].map((type) => [type, 2] as const),
  ...[4, 5, 6].map((type) => [type, 4] as const),
  ...[10, 11, 12].map((type) => [type, 8] as const),
]);
const UINT32 = 4;
const TEXT = 8;
const LIST = 9;
/** Fewest bytes of a pair (length, 1 byte of key, type, 1 byte of value) and of a tensor (length, dimensions, type, offset). */
const PAIR_BYTES = 14;
const TENSOR_BYTES = 24;

/** Reads and checks the header; `onTensor` sees every tensor. The file's length is the caller's to compare with `needed_bytes`. */
export function readGguf(source: ByteSource, onTensor?: (tensor: GgufTensor) => void): Promise<HeaderVerdict<GgufHeader>> {
  return verdictOf(async () => {
    const window = new GgufWindow(source);
    const { version, tensorCount, pairCount } = await readCounts(window);
    const { metadata, alignment } = await readPairs(window, pairCount);
    const table = await readTensors(window, tensorCount, alignment, onTensor);
    const headerEnd = window.position;
    const dataStart = Math.ceil(headerEnd / alignment) * alignment;
    return {
      version,
      metadata,
      tensors: tensorCount,
      elements: table.elements,
      types: table.types,
      newer_types: [...table.types.keys()].filter((type) => type > NEWEST_TENSOR_TYPE),
      data_start: dataStart,
      needed_bytes: tensorCount === 0 ? headerEnd : dataStart + table.end,
      sha256: window.digest(),
    };
  });
}

async function readCounts(window: GgufWindow) {
  await window.need(8, "the first bytes");
  if (new TextDecoder().decode(window.bytes(4)) !== "GGUF") throw new HeaderProblem('not a GGUF file: it does not begin with "GGUF"');
  const version = window.u32();
  if ((version & 0xffff) === 0) throw new HeaderProblem("a big-endian file: re-convert the model for this machine");
  if (version === 1) throw new HeaderProblem("GGUF version 1, which llama.cpp no longer reads: re-convert the model");
  if (version > 3) throw new HeaderProblem(`GGUF version ${version} is newer than this llmgw knows`);
  await window.need(16, "the counts");
  const tensors = window.u64();
  const pairs = window.u64();
  if (pairs > BigInt(LIMITS.keys)) throw new HeaderProblem(`${pairs} keys: more than ${LIMITS.keys}`);
  if (tensors > BigInt(LIMITS.tensors)) throw new HeaderProblem(`${tensors} tensors: more than ${LIMITS.tensors}`);
  const pairCount = Number(pairs);
  const tensorCount = Number(tensors);
  window.check(pairCount * PAIR_BYTES + tensorCount * TENSOR_BYTES, `${pairCount} keys and ${tensorCount} tensors`);
  return { version, tensorCount, pairCount };
}

async function readPairs(window: GgufWindow, count: number) {
  const metadata = new Map<string, GgufValue>();
  let alignment = 32;
  for (let index = 0; index < count; index++) {
    const key = await readName(window, LIMITS.key_bytes, `key ${index + 1} of ${count}`);
    if (key === "") throw new HeaderProblem(`key ${index + 1} of ${count} is empty`);
    if (metadata.has(key)) throw new HeaderProblem(`key ${printable(key)} occurs twice`);
    const what = `the value of ${printable(key)}`;
    await window.need(4, what);
    const type = window.u32();
    const value = await readValue(window, type, what);
    metadata.set(key, value);
    if (key === "general.alignment") alignment = checkedAlignment(type, value);
  }
  return { metadata, alignment };
}

function checkedAlignment(type: number, value: GgufValue): number {
  const number = value.kind === "scalar" && type === UINT32 ? Number(value.value) : Number.NaN;
  const powerOfTwo = number > 0 && (number & (number - 1)) === 0;
  if (!powerOfTwo || number > LIMITS.alignment) throw new HeaderProblem("general.alignment is not a power of two up to 4096");
  return number;
}

async function readValue(window: GgufWindow, type: number, what: string): Promise<GgufValue> {
  if (type === TEXT) return readText(window, what);
  if (type === LIST) return readList(window, what, 1);
  const size = SIZES.get(type);
  if (size === undefined) throw new HeaderProblem(`${what} has the unknown type ${type}`);
  await window.need(size, what);
  return { kind: "scalar", value: scalar(window, type, what) };
}

/** One value of a fixed size whose bytes are ready. */
function scalar(window: GgufWindow, type: number, what: string): GgufScalar {
  switch (type) {
    case 0:
      return window.u8();
    case 1:
      return window.i8();
    case 2:
      return window.u16();
    case 3:
      return window.i16();
    case 4:
      return window.u32();
    case 5:
      return window.i32();
    case 6:
      return window.f32();
    case 7: {
      const byte = window.u8();
      if (byte > 1) throw new HeaderProblem(`${what} is neither true nor false: ${byte}`);
      return byte === 1;
    }
    case 10:
      return window.u64();
    case 11:
      return window.i64();
    case 12:
      return window.f64();
    default:
      throw new Error(`type ${type} has no fixed size`);
  }
}

async function readLength(window: GgufWindow, limit: number, what: string): Promise<number> {
  if (!window.has(8)) await window.need(8, what);
  const length = window.u64();
  if (length > BigInt(window.remaining)) {
    throw new HeaderProblem(`cut off at byte ${window.position + window.remaining} while reading ${what} (${length} bytes)`, true);
  }
  if (length > BigInt(limit)) throw new HeaderProblem(`${what} is longer than ${limit} bytes`);
  return Number(length);
}

async function readText(window: GgufWindow, what: string): Promise<GgufValue> {
  const length = await readLength(window, LIMITS.text_bytes, what);
  if (length > LIMITS.kept_text_bytes) {
    await window.skip(length, what);
    return { kind: "long-text", size_bytes: length };
  }
  await window.need(length, what);
  return { kind: "scalar", value: new TextDecoder("utf-8", { ignoreBOM: true }).decode(window.bytes(length)) };
}

/** A key or tensor name. Bad UTF-8 is refused: two names that differ only there would look the same. */
async function readName(window: GgufWindow, limit: number, what: string): Promise<string> {
  const length = await readLength(window, limit, what);
  await window.need(length, what);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(window.bytes(length));
  } catch {
    throw new HeaderProblem(`${what} is not UTF-8`);
  }
}

async function readList(window: GgufWindow, what: string, depth: number): Promise<GgufValue> {
  if (depth > LIMITS.nesting) throw new HeaderProblem(`${what} is nested deeper than ${LIMITS.nesting}`);
  await window.need(12, what);
  const type = window.u32();
  const size = SIZES.get(type);
  if (size === undefined && type !== TEXT && type !== LIST) throw new HeaderProblem(`${what} is a list of the unknown type ${type}`);
  // Fewest bytes of an element: a text is at least its length, a list its type and count.
  const atLeast = size ?? (type === TEXT ? 8 : 12);
  const long = window.u64();
  if (long * BigInt(atLeast) > BigInt(window.remaining)) {
    throw new HeaderProblem(`cut off at byte ${window.position + window.remaining} while reading ${what} (a list of ${long})`, true);
  }
  const count = Number(long);
  if (size !== undefined && count <= LIMITS.kept_list_items) {
    await window.need(count * size, what);
    return { kind: "list", count, items: Array.from({ length: count }, () => scalar(window, type, what)) };
  }
  if (size !== undefined) await window.skip(count * size, what);
  else if (type === TEXT) await skipTexts(window, count, what);
  else for (let index = 0; index < count; index++) await readList(window, what, depth + 1);
  return { kind: "list", count };
}

async function skipTexts(window: GgufWindow, count: number, what: string): Promise<void> {
  window.check(count * 8, what);
  for (let index = 0; index < count; index++) {
    // A vocabulary has hundreds of thousands of texts: waiting for each would take a hundred times as long as passing over it.
    if (window.skipTextInside()) continue;
    const length = await readLength(window, LIMITS.text_bytes, what);
    await window.skip(length, what);
  }
}

async function readTensors(window: GgufWindow, count: number, alignment: number, onTensor?: (tensor: GgufTensor) => void) {
  const names = new Set<string>();
  const types = new Map<number, GgufTotals>();
  let elements = 0;
  let end = 0;
  for (let index = 0; index < count; index++) {
    const tensor = await readTensor(window, `tensor ${index + 1} of ${count}`, alignment);
    if (names.has(tensor.name)) throw new HeaderProblem(`tensor ${printable(tensor.name)} occurs twice`);
    names.add(tensor.name);
    const size = tensor.size_bytes ?? 0;
    const before = types.get(tensor.type) ?? { tensors: 0, elements: 0, size_bytes: 0 };
    types.set(tensor.type, {
      tensors: before.tensors + 1,
      elements: before.elements + tensor.elements,
      size_bytes: before.size_bytes + size,
    });
    elements += tensor.elements;
    end = Math.max(end, tensor.offset + size);
    if (!Number.isSafeInteger(elements) || !Number.isSafeInteger(end)) throw new HeaderProblem("the tensors together are too large");
    onTensor?.(tensor);
  }
  return { types, elements, end };
}

async function readTensor(window: GgufWindow, what: string, alignment: number): Promise<GgufTensor> {
  const name = await readName(window, LIMITS.name_bytes, `the name of ${what}`);
  const shown = `tensor ${printable(name)}`;
  await window.need(4, shown);
  const dimensionCount = window.u32();
  if (dimensionCount > LIMITS.dimensions) throw new HeaderProblem(`${shown} has ${dimensionCount} dimensions`);
  await window.need(dimensionCount * 8 + 12, shown);
  const dimensions: number[] = [];
  let elements = 1n;
  for (let index = 0; index < dimensionCount; index++) {
    const dimension = window.u64();
    if (dimension < 1n || dimension > BigInt(LIMITS.dimension)) throw new HeaderProblem(`${shown} has a dimension of ${dimension}`);
    elements *= dimension;
    dimensions.push(Number(dimension));
  }
  const type = window.u32();
  const offset = window.u64();
  if (offset > BigInt(Number.MAX_SAFE_INTEGER) || offset % BigInt(alignment) !== 0n) {
    throw new HeaderProblem(`${shown} has the offset ${offset}, not a multiple of ${alignment}`);
  }
  // 8 bytes an element is the most: the size stays exact when eight times the elements does.
  if (elements * 8n > BigInt(Number.MAX_SAFE_INTEGER)) throw new HeaderProblem(`${shown} is too large`);
  const size = tensorSize(shown, type, dimensions[0] ?? 1, Number(elements));
  return { name, type, dimensions, offset: Number(offset), elements: Number(elements), size_bytes: size };
}

function tensorSize(shown: string, type: number, firstDimension: number, elements: number): number | undefined {
  const known = GGUF_TENSOR_TYPES.get(type);
  if (known !== undefined) {
    if (firstDimension % known.block !== 0) {
      throw new HeaderProblem(`${shown}: ${firstDimension} is not a multiple of ${known.block}, the block of ${known.name}`);
    }
    return (elements / known.block) * known.bytes;
  }
  if (type <= NEWEST_TENSOR_TYPE) {
    const why = REMOVED_TENSOR_TYPES.has(type) ? "an old quantization" : "an unknown type";
    throw new HeaderProblem(`${shown} has ${why} (type ${type}): re-convert the model`);
  }
  return undefined;
}
