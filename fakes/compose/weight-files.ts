/** Renders safetensors and GGUF files, small ones whole and large ones as their header with the length that the file would have. */
import { GGUF_TENSOR_TYPES } from "../../src/discovery/weights/gguf-types.ts";

export interface TensorOfSafetensors {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
}

export interface SafetensorsFile {
  readonly tensors: readonly TensorOfSafetensors[];
  readonly metadata?: Readonly<Record<string, string>>;
  /** Spaces at the end of the header. */
  readonly padding?: number;
}

export interface RenderedHeader {
  readonly header: Uint8Array;
  /** Length of the whole file. */
  readonly length: number;
}

const BITS: Readonly<Record<string, number>> = { F4: 4, U8: 8, I8: 8, BOOL: 8, F8_E4M3: 8, BF16: 16, F16: 16, I32: 32, F32: 32, I64: 64 };

/** Tensors lie in the order given. Throws for a dtype that it does not know. */
export function renderSafetensorsHeader(file: SafetensorsFile): RenderedHeader {
  const entries: string[] = file.metadata === undefined ? [] : [`"__metadata__":${JSON.stringify(file.metadata)}`];
  let at = 0;
  for (const { name, dtype, shape } of file.tensors) {
    const bits = BITS[dtype];
    if (bits === undefined) throw new Error(`no size for ${dtype}`);
    const end = at + (shape.reduce((all, dimension) => all * dimension, 1) * bits) / 8;
    entries.push(`${JSON.stringify(name)}:${JSON.stringify({ dtype, shape, data_offsets: [at, end] })}`);
    at = end;
  }
  const header = safetensorsWithHeader(`{${entries.join(",")}}${" ".repeat(file.padding ?? 0)}`);
  return { header, length: header.length + at };
}

/** A whole file; the data is zeros. */
export function renderSafetensors(file: SafetensorsFile): Uint8Array {
  const { header, length } = renderSafetensorsHeader(file);
  return concat([header, new Uint8Array(length - header.length)]);
}

/** Any text as the header, for broken files. */
export function safetensorsWithHeader(text: string | Uint8Array): Uint8Array {
  const json = typeof text === "string" ? new TextEncoder().encode(text) : text;
  return concat([u64(json.length), json]);
}

export type GgufPair =
  | readonly [key: string, type: "u8" | "i8" | "u16" | "i16" | "u32" | "i32" | "f32" | "f64", value: number]
  | readonly [key: string, type: "u64" | "i64", value: bigint]
  | readonly [key: string, type: "bool", value: boolean]
  | readonly [key: string, type: "text", value: string]
  | readonly [key: string, type: "u32[]", value: readonly number[]]
  | readonly [key: string, type: "text[]", value: readonly string[]];

export interface TensorOfGguf {
  readonly name: string;
  /** Id of a ggml type. */
  readonly type: number;
  readonly dimensions: readonly number[];
}

export interface GgufFile {
  readonly version?: number;
  readonly pairs?: readonly GgufPair[];
  readonly tensors?: readonly TensorOfGguf[];
  /** Must be said in `general.alignment` too where it is not 32. */
  readonly alignment?: number;
}

/** Tensors lie in the order given, each padded to the alignment. A type that is not known takes no bytes. */
export function renderGgufHeader(file: GgufFile): RenderedHeader {
  const alignment = file.alignment ?? 32;
  const tensors = file.tensors ?? [];
  const parts = [text8("GGUF"), u32(file.version ?? 3), u64(tensors.length), u64(file.pairs?.length ?? 0)];
  for (const pair of file.pairs ?? []) parts.push(ggufText(pair[0]), ...ggufValue(pair));
  let at = 0;
  for (const { name, type, dimensions } of tensors) {
    parts.push(ggufText(name), u32(dimensions.length), ...dimensions.map(u64), u32(type), u64(at));
    at = align(at + ggufTensorBytes(type, dimensions), alignment);
  }
  const header = concat(parts);
  const padded = concat([header, new Uint8Array(align(header.length, alignment) - header.length)]);
  return { header: padded, length: padded.length + at };
}

/** A whole file; the data is zeros. */
export function renderGguf(file: GgufFile): Uint8Array {
  const { header, length } = renderGgufHeader(file);
  return concat([header, new Uint8Array(length - header.length)]);
}

export function ggufTensorBytes(type: number, dimensions: readonly number[]): number {
  const known = GGUF_TENSOR_TYPES.get(type);
  const elements = dimensions.reduce((all, dimension) => all * dimension, 1);
  return known === undefined ? 0 : (elements / known.block) * known.bytes;
}

function ggufValue(pair: GgufPair): readonly Uint8Array[] {
  switch (pair[1]) {
    case "u8":
      return [u32(0), number(1, (view) => view.setUint8(0, pair[2]))];
    case "i8":
      return [u32(1), number(1, (view) => view.setInt8(0, pair[2]))];
    case "u16":
      return [u32(2), number(2, (view) => view.setUint16(0, pair[2], true))];
    case "i16":
      return [u32(3), number(2, (view) => view.setInt16(0, pair[2], true))];
    case "u32":
      return [u32(4), u32(pair[2])];
    case "i32":
      return [u32(5), number(4, (view) => view.setInt32(0, pair[2], true))];
    case "f32":
      return [u32(6), number(4, (view) => view.setFloat32(0, pair[2], true))];
    case "bool":
      return [u32(7), number(1, (view) => view.setUint8(0, pair[2] ? 1 : 0))];
    case "text":
      return [u32(8), ggufText(pair[2])];
    case "u64":
      return [u32(10), u64(pair[2])];
    case "i64":
      return [u32(11), number(8, (view) => view.setBigInt64(0, pair[2], true))];
    case "f64":
      return [u32(12), number(8, (view) => view.setFloat64(0, pair[2], true))];
    case "u32[]":
      return [u32(9), u32(4), u64(pair[2].length), ...pair[2].map(u32)];
    case "text[]":
      return [u32(9), u32(8), u64(pair[2].length), ...pair[2].map(ggufText)];
    default:
      return pair satisfies never;
  }
}

function align(length: number, alignment: number): number {
  return Math.ceil(length / alignment) * alignment;
}

function ggufText(value: string): Uint8Array {
  const bytes = text8(value);
  return concat([u64(bytes.length), bytes]);
}

function text8(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

export function u32(value: number): Uint8Array {
  return number(4, (view) => view.setUint32(0, value, true));
}

export function u64(value: number | bigint): Uint8Array {
  return number(8, (view) => view.setBigUint64(0, BigInt(value), true));
}

function number(length: number, set: (view: DataView) => void): Uint8Array {
  const bytes = new Uint8Array(length);
  set(new DataView(bytes.buffer));
  return bytes;
}

/** The parts one after another. */
export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
