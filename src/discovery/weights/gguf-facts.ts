/**
 * What the headers of one GGUF model say (reference/weights.md, section 4.2).
 */
import type { Weights } from "../../domain/inventory.ts";
import type { GgufHeader } from "./gguf.ts";
import { GGUF_FILE_TYPES, GGUF_TENSOR_TYPES } from "./gguf-types.ts";
import type { ModelFacts } from "./model-config.ts";

export type GgufKind = "model" | "adapter" | "mmproj" | "imatrix" | "mtp";

/** What a file is: by its own word, else by its name. */
export function ggufKind(header: GgufHeader | undefined, name: string): GgufKind {
  const said = header === undefined ? undefined : ggufText(header, "general.type");
  if (said === "adapter" || said === "mmproj" || said === "imatrix") return said;
  const base = (name.split("/").at(-1) ?? name).toLowerCase();
  // "clip" is the architecture of every projector written before there was a general.type.
  if (base.startsWith("mmproj-") || (header !== undefined && ggufText(header, "general.architecture") === "clip")) return "mmproj";
  if (base.startsWith("mtp-")) return "mtp";
  return said === undefined && /(^|[-_.])imatrix\b/.test(base) ? "imatrix" : "model";
}

/** A text of the header, `undefined` when it is absent, empty, of another type, or too long to be kept. */
export function ggufText(header: GgufHeader, key: string): string | undefined {
  const value = header.metadata.get(key);
  return value?.kind === "scalar" && typeof value.value === "string" && value.value !== "" ? value.value : undefined;
}

/** A whole number of the header, 0 included; of a list (one entry per layer) the largest. */
export function ggufCount(header: GgufHeader, key: string): number | undefined {
  const value = header.metadata.get(key);
  if (value === undefined || value.kind === "long-text") return undefined;
  const numbers = (value.kind === "scalar" ? [value.value] : (value.items ?? [])).map(wholeNumber);
  const known = numbers.filter((number) => number !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

function wholeNumber(value: unknown): number | undefined {
  const number = typeof value === "bigint" || typeof value === "number" ? Number(value) : undefined;
  return number !== undefined && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

export type GgufFacts = ModelFacts & Pick<Weights, "parameters" | "dtype">;

/** Facts of a model: the keys of its first shard, the tensors of all of them. */
export function ggufFacts(first: GgufHeader, all: readonly GgufHeader[]): GgufFacts {
  const architecture = ggufText(first, "general.architecture");
  const own = (key: string) => positive(ggufCount(first, `${architecture}.${key}`));
  const hidden = own("embedding_length");
  const heads = own("attention.head_count");
  const rank = own("attention.kv_lora_rank");
  const elements = all.reduce((sum, header) => sum + header.elements, 0);
  return {
    ...typeFacts(first, all),
    parameters: Number.isSafeInteger(elements) ? positive(elements) : undefined,
    architecture,
    purpose: purpose(first, architecture),
    layers: own("block_count"),
    attention_layers: attentionLayers(first, `${architecture}.attention.head_count_kv`),
    hidden_size: hidden,
    heads,
    kv_heads: own("attention.head_count_kv") ?? heads,
    head_dim: own("attention.key_length") ?? (rank === undefined && hidden !== undefined ? quotient(hidden, heads) : undefined),
    kv_lora_rank: rank,
    qk_rope_head_dim: rank === undefined ? undefined : own("rope.dimension_count"),
    context_length: own("context_length"),
    sliding_window: own("attention.sliding_window"),
    experts: own("expert_count"),
    experts_per_token: own("expert_used_count"),
    vocab_size: own("vocab_size") ?? positive(listCount(first, "tokenizer.ggml.tokens")),
  };
}

function positive(number: number | undefined): number | undefined {
  return number === undefined || number === 0 ? undefined : number;
}

function quotient(hidden: number, heads: number | undefined): number | undefined {
  return heads === undefined || hidden % heads !== 0 ? undefined : hidden / heads;
}

function listCount(header: GgufHeader, key: string): number | undefined {
  const value = header.metadata.get(key);
  return value?.kind === "list" ? value.count : undefined;
}

/** A model with other layers between (Mamba, convolution) lists 0 KV heads for those. */
function attentionLayers(header: GgufHeader, key: string): number | undefined {
  const value = header.metadata.get(key);
  if (value?.kind !== "list" || value.items === undefined) return undefined;
  const withCache = value.items.filter((item) => Number(item) > 0).length;
  return withCache === value.count ? undefined : withCache;
}

/** Types and the label. `general.file_type` is believed only when tensors of that type are there: re-quantized files keep an old one. */
function typeFacts(first: GgufHeader, all: readonly GgufHeader[]): Pick<Weights, "dtype" | "quantization"> {
  const bytes = new Map<string, number>();
  for (const header of all) {
    for (const [type, totals] of header.types) {
      const name = GGUF_TENSOR_TYPES.get(type)?.name ?? `type-${type}`;
      bytes.set(name, (bytes.get(name) ?? 0) + (totals.size_bytes || totals.elements));
    }
  }
  const dtype = [...bytes].sort((a, b) => b[1] - a[1])[0]?.[0];
  const said = GGUF_FILE_TYPES.get(ggufCount(first, "general.file_type") ?? -1);
  const plain = dtype === undefined || ["f32", "f16", "bf16", "f64"].includes(dtype);
  const quantization = said !== undefined && bytes.has(said.mostly) ? said.name : plain ? undefined : dtype;
  return { dtype, quantization };
}

/** Source of the numbers: llama.cpp include/llama.h, `llama_pooling_type` (1 mean, 2 cls, 3 last, 4 rank). */
function purpose(header: GgufHeader, architecture: string | undefined): Weights["purpose"] {
  const pooling = ggufCount(header, `${architecture}.pooling_type`);
  if (pooling === 4) return "rerank";
  if (pooling !== undefined && pooling > 0) return "embedding";
  if (architecture === undefined) return undefined;
  return /bert|embedding|t5encoder/.test(architecture) ? "embedding" : "chat";
}
