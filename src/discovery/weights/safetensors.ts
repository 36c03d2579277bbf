/**
 * The header of a safetensors file: 8 bytes of length, then JSON that places each tensor. Only the header is ever read.
 * Source: huggingface/safetensors, README.md and safetensors/src/tensor.rs (the rules of its reader); limits: `limits.ts`.
 */
import * as v from "valibot";
import { printable } from "../../lib/printable.ts";
import { messageOf } from "../../lib/user-error.ts";
import { type ByteSource, HeaderProblem, type HeaderVerdict, verdictOf } from "./header-problem.ts";
import { SAFETENSORS as LIMITS } from "./limits.ts";
import { JsonProblem, parseJsonEntries } from "./strict-json.ts";

export interface SafetensorsTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** First and one past the last byte, counted from the end of the header. */
  readonly begin: number;
  readonly end: number;
}

export interface SafetensorsHeader {
  readonly metadata: ReadonlyMap<string, string>;
  /** In the order of their bytes. */
  readonly tensors: readonly SafetensorsTensor[];
  /** Length of the header with its 8 length bytes. */
  readonly header_bytes: number;
  /** The length the file must have, exactly. */
  readonly needed_bytes: number;
  /** The header as it stands in the file, for the identity of the model. */
  readonly raw: Uint8Array;
}

/** Bits per element. A dtype that is not here is refused: its size cannot be checked. */
const BITS: ReadonlyMap<string, number> = new Map([
  ["F4", 4],
  ...["F6_E2M3", "F6_E3M2"].map((name) => [name, 6] as const),
  ...["BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"].map((name) => [name, 8] as const),
  ...["I16", "U16", "F16", "BF16"].map((name) => [name, 16] as const),
  ...["I32", "U32", "F32"].map((name) => [name, 32] as const),
  ...["I64", "U64", "F64", "C64"].map((name) => [name, 64] as const),
]);

const Offset = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const Tensor = v.object({
  dtype: v.string(),
  shape: v.pipe(v.array(v.pipe(Offset, v.maxValue(LIMITS.dimension))), v.maxLength(LIMITS.dimensions)),
  data_offsets: v.tuple([Offset, Offset]),
});

/**
 * Reads and checks the header. The file's length is not judged here beyond the header itself: compare `needed_bytes`, so that the
 * facts of a file that was cut off are still told.
 */
export function readSafetensors(source: ByteSource): Promise<HeaderVerdict<SafetensorsHeader>> {
  return verdictOf(async () => {
    const length = headerLength(await source.read(0, 8), source.size);
    const raw = await source.read(0, 8 + length);
    if (raw.length < 8 + length) throw new HeaderProblem(`cut off at byte ${raw.length} while reading the header`, true);
    return parseHeader(raw);
  });
}

/** Length of the JSON, bytes, from the first 8 bytes of a file of that size. Throws `HeaderProblem` when it cannot be right. */
function headerLength(first: Uint8Array, fileSize: number): number {
  if (first.length < 8) throw new HeaderProblem(`cut off: has ${fileSize} bytes, a safetensors header needs 8 and more`, true);
  const length = new DataView(first.buffer, first.byteOffset, 8).getBigUint64(0, true);
  if (length < BigInt(LIMITS.header_min_bytes)) throw new HeaderProblem(`not a safetensors file: its header is ${length} bytes long`);
  if (length > BigInt(LIMITS.header_max_bytes)) {
    throw new HeaderProblem(`not a safetensors file: its first 8 bytes promise a header of ${length} bytes`);
  }
  const needed = 8 + Number(length);
  if (needed > fileSize) throw new HeaderProblem(`cut off: has ${fileSize} bytes, its header alone needs ${needed}`, true);
  return Number(length);
}

/** Parses the first `8 + N` bytes of a file. Throws `HeaderProblem`. */
function parseHeader(raw: Uint8Array): SafetensorsHeader {
  const text = decodeUtf8(raw.subarray(8));
  if (!text.startsWith("{")) throw new HeaderProblem('the header does not begin with "{"');
  const tensors = new Map<string, SafetensorsTensor>();
  let metadata: ReadonlyMap<string, string> | undefined;
  try {
    parseJsonEntries(text, { repeated: "refuse" }, (key, value) => {
      if (key === "__metadata__") {
        if (metadata !== undefined) throw new HeaderProblem("the header holds __metadata__ twice");
        metadata = parseMetadata(value);
        return;
      }
      if (tensors.has(key)) throw new HeaderProblem(`tensor ${printable(key)} occurs twice`);
      tensors.set(key, parseTensor(key, value));
    });
  } catch (thrown) {
    if (thrown instanceof JsonProblem) throw new HeaderProblem(`the header is not JSON: ${messageOf(thrown)}`);
    throw thrown;
  }
  const inOrder = [...tensors.values()].sort((a, b) => a.begin - b.begin || a.end - b.end);
  return {
    metadata: metadata ?? new Map(),
    tensors: inOrder,
    header_bytes: raw.length,
    needed_bytes: raw.length + dataLength(inOrder),
    raw,
  };
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new HeaderProblem("the header is not UTF-8");
  }
}

function parseMetadata(value: unknown): ReadonlyMap<string, string> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new HeaderProblem("__metadata__ is not an object");
  const metadata = new Map<string, string>();
  // Not v.record: it leaves out keys such as "constructor", and this map is prototype-safe anyway.
  for (const [key, text] of Object.entries(value)) {
    if (typeof text !== "string") throw new HeaderProblem(`__metadata__: ${printable(key)} is not a text`);
    metadata.set(key, text);
  }
  return metadata;
}

function parseTensor(name: string, value: unknown): SafetensorsTensor {
  // The name is made printable only when it is told: a header may hold hundreds of thousands.
  const problem = (text: string) => new HeaderProblem(`tensor ${printable(name)}: ${text}`);
  if (isTooLong(name)) throw problem("its name is too long");
  const parsed = v.safeParse(Tensor, value);
  if (!parsed.success) throw problem(printable(parsed.issues[0].message));
  const { dtype, shape, data_offsets } = parsed.output;
  const [begin, end] = data_offsets;
  const bits = BITS.get(dtype);
  if (bits === undefined) throw problem(`unknown dtype ${printable(dtype)}`);
  const elements = product(shape);
  // Above 2^53 numbers are no longer exact, and no file is that long.
  if (!Number.isSafeInteger(elements * bits)) throw problem("its shape is too large");
  if (end < begin || (end - begin) * 8 !== elements * bits) {
    throw problem(`its offsets hold ${end - begin} bytes, its shape needs ${(elements * bits) / 8}`);
  }
  return { name, dtype, shape, begin, end };
}

function isTooLong(name: string): boolean {
  // One UTF-16 unit is at most 3 bytes of UTF-8: most names need no counting.
  return name.length * 3 > LIMITS.name_bytes && new TextEncoder().encode(name).length > LIMITS.name_bytes;
}

function product(shape: readonly number[]): number {
  return shape.reduce((all, dimension) => (Number.isSafeInteger(all) ? all * dimension : all), 1);
}

/** Elements of a checked tensor. */
export function elementsOf(tensor: SafetensorsTensor): number {
  return product(tensor.shape);
}

/** Tensors lie side by side from 0, with neither gap nor overlap. */
function dataLength(inOrder: readonly SafetensorsTensor[]): number {
  let at = 0;
  for (const tensor of inOrder) {
    if (tensor.begin !== at) {
      throw new HeaderProblem(`tensor ${printable(tensor.name)} begins at ${tensor.begin}, the one before it ends at ${at}`);
    }
    at = tensor.end;
  }
  return at;
}
