/**
 * `config.json` (Hugging Face) and `params.json` (Mistral) → facts. Both are written by anybody: a field of the wrong type is a field
 * that is not there, and one bad field costs nothing else. Field names and their order: reference/weights.md, section 4.1.
 */
import * as v from "valibot";
import type { Weights } from "../../domain/inventory.ts";

/** The facts that a config tells, under the names of the inventory, and what the counting of tensors needs. */
export type ModelFacts = Pick<
  Weights,
  | "architecture"
  | "purpose"
  | "quantization"
  | "context_length"
  | "layers"
  | "attention_layers"
  | "sliding_layers"
  | "hidden_size"
  | "heads"
  | "kv_heads"
  | "head_dim"
  | "kv_lora_rank"
  | "qk_rope_head_dim"
  | "sliding_window"
  | "experts"
  | "experts_per_token"
  | "vocab_size"
  | "needs_remote_code"
> & {
  /** Bits of a packed weight: 32 / bits values lie in one I32. */
  readonly packed_bits?: number | undefined;
  /** U8 weights hold two 4-bit values each. */
  readonly fp4?: boolean | undefined;
};

/** Not a model although it has a config: what it is instead. */
export const ADAPTER_CONFIG = "adapter_config.json";
export const PIPELINE_CONFIG = "model_index.json";

const lenient = <T extends v.GenericSchema>(schema: T) => v.fallback(v.nullish(schema), undefined);
const Count = lenient(v.pipe(v.number(), v.safeInteger(), v.minValue(1)));
const Flag = lenient(v.boolean());
const Text = lenient(v.pipe(v.string(), v.nonEmpty()));
const Texts = lenient(v.array(v.pipe(v.string(), v.nonEmpty())));
const AnyObject = v.custom<object>((value) => typeof value === "object" && value !== null && !Array.isArray(value));

const Language = v.object({
  num_hidden_layers: Count,
  n_layer: Count,
  n_layers: Count,
  num_layers: Count,
  hidden_size: Count,
  n_embd: Count,
  d_model: Count,
  num_attention_heads: Count,
  n_head: Count,
  num_key_value_heads: Count,
  num_kv_heads: Count,
  multi_query: Flag,
  head_dim: Count,
  kv_lora_rank: Count,
  qk_rope_head_dim: Count,
  max_position_embeddings: Count,
  n_positions: Count,
  max_sequence_length: Count,
  seq_length: Count,
  model_max_length: Count,
  sliding_window: Count,
  use_sliding_window: Flag,
  sliding_window_pattern: Count,
  layer_types: Texts,
  layers_block_type: Texts,
  hybrid_override_pattern: Text,
  full_attention_interval: Count,
  n_routed_experts: Count,
  num_local_experts: Count,
  num_experts: Count,
  num_experts_per_tok: Count,
  moe_top_k: Count,
  vocab_size: Count,
});
type Language = v.InferOutput<typeof Language>;

const Quantization = v.object({
  quant_method: Text,
  quant_algo: Text,
  bits: Count,
  load_in_4bit: Flag,
  config_groups: lenient(
    v.record(v.string(), v.fallback(v.object({ weights: lenient(v.object({ num_bits: Count })) }), { weights: undefined })),
  ),
});

const Config = v.object({
  architectures: Texts,
  model_type: Text,
  auto_map: lenient(AnyObject),
  quantization_config: lenient(Quantization),
  text_config: lenient(AnyObject),
  llm_config: lenient(AnyObject),
  language_config: lenient(AnyObject),
  thinker_config: lenient(v.object({ text_config: lenient(AnyObject) })),
});

/** Facts of a parsed `config.json`; `undefined` when it is not a JSON object. */
export function configFacts(value: unknown): ModelFacts | undefined {
  if (!v.is(AnyObject, value)) return undefined;
  const config = v.parse(Config, value);
  const language = languagePart(value, config);
  const architecture = config.architectures?.[0] ?? config.model_type ?? undefined;
  const quantization = config.quantization_config ?? undefined;
  return {
    ...languageFacts(language),
    architecture,
    purpose: purposeOf(architecture),
    ...(quantization === undefined ? {} : quantizationFacts(quantization)),
    needs_remote_code: config.auto_map == null ? undefined : true,
  };
}

/** Multimodal models keep the language part one level down; the top counts where it says how many layers there are. */
function languagePart(value: object, config: v.InferOutput<typeof Config>): Language {
  const top = v.parse(Language, value);
  if (layersOf(top) !== undefined) return top;
  const nested = [config.text_config, config.llm_config, config.language_config, config.thinker_config?.text_config];
  for (const part of nested) {
    if (part == null) continue;
    const language = v.parse(Language, part);
    if (layersOf(language) !== undefined) return language;
  }
  return top;
}

function languageFacts(language: Language): ModelFacts {
  const layers = layersOf(language);
  const hidden = language.hidden_size ?? language.n_embd ?? language.d_model ?? undefined;
  const heads = language.num_attention_heads ?? language.n_head ?? undefined;
  const rank = language.kv_lora_rank ?? undefined;
  return {
    layers,
    ...layerKinds(language, layers),
    hidden_size: hidden,
    heads,
    kv_heads: language.num_key_value_heads ?? language.num_kv_heads ?? (language.multi_query === true ? 1 : heads),
    head_dim: language.head_dim ?? (rank === undefined ? quotient(hidden, heads) : undefined),
    kv_lora_rank: rank,
    qk_rope_head_dim: language.qk_rope_head_dim ?? undefined,
    // As it stands: whether a rope_scaling factor stretches it differs from engine to engine.
    context_length:
      language.max_position_embeddings ??
      language.n_positions ??
      language.max_sequence_length ??
      language.seq_length ??
      language.model_max_length ??
      undefined,
    sliding_window: language.use_sliding_window === false ? undefined : (language.sliding_window ?? undefined),
    experts: language.n_routed_experts ?? language.num_local_experts ?? language.num_experts ?? undefined,
    experts_per_token: language.num_experts_per_tok ?? language.moe_top_k ?? undefined,
    vocab_size: language.vocab_size ?? undefined,
  };
}

function layersOf(language: Language): number | undefined {
  return language.num_hidden_layers ?? language.n_layer ?? language.n_layers ?? language.num_layers ?? undefined;
}

const FULL_LAYERS: readonly string[] = ["full_attention", "attention", "hybrid"];
const SLIDING_LAYERS: readonly string[] = ["sliding_attention", "chunked_attention"];
const OTHER_LAYERS: readonly string[] = ["linear_attention", "mamba", "mamba2", "conv", "recurrent", "mlp", "moe"];

/** How many layers keep a cache that grows with the context, and how many only a window; said only where the config says it. */
function layerKinds(language: Language, layers: number | undefined): ModelFacts {
  const kinds = language.layer_types ?? language.layers_block_type ?? undefined;
  if (kinds !== undefined && kinds.length > 0) {
    // A kind of layer that we do not know may keep any cache.
    if (!kinds.every((kind) => [FULL_LAYERS, SLIDING_LAYERS, OTHER_LAYERS].some((known) => known.includes(kind)))) return {};
    const sliding = kinds.filter((kind) => SLIDING_LAYERS.includes(kind)).length;
    return {
      attention_layers: kinds.filter((kind) => FULL_LAYERS.includes(kind)).length,
      sliding_layers: sliding > 0 ? sliding : undefined,
    };
  }
  // Nemotron-H writes one letter per layer; the star is attention.
  const pattern = language.hybrid_override_pattern ?? undefined;
  if (pattern !== undefined) return { attention_layers: [...pattern].filter((letter) => letter === "*").length };
  if (layers === undefined) return {};
  const interval = language.full_attention_interval ?? undefined;
  if (interval !== undefined && interval <= layers) return { attention_layers: Math.floor(layers / interval) };
  const every = language.sliding_window_pattern ?? undefined;
  if (every === undefined || language.sliding_window == null) return {};
  const full = Math.floor(layers / every);
  return { attention_layers: full, sliding_layers: layers - full };
}

function quotient(hidden: number | undefined, heads: number | undefined): number | undefined {
  return hidden === undefined || heads === undefined || hidden % heads !== 0 ? undefined : hidden / heads;
}

/** What the model is for, guessed from the name of its class; `undefined` where the name says nothing. */
export function purposeOf(architecture: string | undefined): Weights["purpose"] {
  if (architecture === undefined) return undefined;
  if (architecture.startsWith("Whisper")) return "audio";
  if (/(ForCausalLM|LMHeadModel|ForConditionalGeneration)$/.test(architecture)) return "chat";
  if (architecture.endsWith("ForSequenceClassification")) return "rerank";
  return architecture.endsWith("Model") ? "embedding" : undefined;
}

/** ModelOpt is a tool and not a method: its `quant_algo` says what the weights are. */
function quantizationFacts(quantization: v.InferOutput<typeof Quantization>): ModelFacts {
  const method = (quantization.quant_algo ?? quantization.quant_method)?.toLowerCase();
  const groups = Object.values(quantization.config_groups ?? {});
  const bits = quantization.bits ?? groups.find((group) => group.weights?.num_bits != null)?.weights?.num_bits ?? undefined;
  // Values of one weight lie in one I32 only up to 8 bits (AWQ is 4 where it does not say).
  const packed = bits !== undefined && bits <= 8 ? bits : method === "awq" ? 4 : undefined;
  const fp4 = quantization.load_in_4bit === true || (method !== undefined && /fp4/.test(method)) || undefined;
  return { quantization: method, packed_bits: packed, fp4 };
}

const ModelOptConfig = v.object({ quantization: v.object({ quant_algo: v.pipe(v.string(), v.nonEmpty()) }) });

/** Facts of ModelOpt's `hf_quant_config.json`, which older exports have instead of `quantization_config`. */
export function modelOptFacts(value: unknown): ModelFacts {
  const parsed = v.safeParse(ModelOptConfig, value);
  if (!parsed.success) return {};
  return quantizationFacts({
    quant_algo: parsed.output.quantization.quant_algo,
    quant_method: undefined,
    bits: undefined,
    load_in_4bit: undefined,
    config_groups: undefined,
  });
}

const Params = v.object({
  dim: Count,
  n_layers: Count,
  n_heads: Count,
  n_kv_heads: Count,
  head_dim: Count,
  vocab_size: Count,
  max_position_embeddings: Count,
  max_seq_len: Count,
  sliding_window: Count,
  moe: lenient(v.object({ num_experts: Count, num_experts_per_tok: Count })),
});

/** Facts of a parsed `params.json`, Mistral's own layout (mistralai/mistral-inference); `undefined` when it is no JSON object. */
export function paramsFacts(value: unknown): ModelFacts | undefined {
  if (!v.is(AnyObject, value)) return undefined;
  const params = v.parse(Params, value);
  const heads = params.n_heads ?? undefined;
  return {
    purpose: "chat",
    layers: params.n_layers ?? undefined,
    hidden_size: params.dim ?? undefined,
    heads,
    kv_heads: params.n_kv_heads ?? heads,
    head_dim: params.head_dim ?? quotient(params.dim ?? undefined, heads),
    vocab_size: params.vocab_size ?? undefined,
    context_length: params.max_position_embeddings ?? params.max_seq_len ?? undefined,
    sliding_window: params.sliding_window ?? undefined,
    experts: params.moe?.num_experts ?? undefined,
    experts_per_token: params.moe?.num_experts_per_tok ?? undefined,
  };
}
