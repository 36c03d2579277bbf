/** Small trees of model files on disk, and the scan of one. */
import { mkdirSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as v from "valibot";
import { type GgufPair, renderGguf, renderSafetensors, type TensorOfGguf } from "../../fakes/compose/weight-files.ts";
import { discoverWeights, type FoundWeights } from "../../src/discovery/weights/discover-weights.ts";
import { Weights } from "../../src/domain/inventory.ts";
import { temporaryFolder } from "./folders.ts";
import { createFsRunner, type FsRunnerOptions } from "./fs-runner.ts";

/** A file's content, a link, an empty folder, or a file with a time (seconds). */
export type TreeEntry =
  | string
  | Uint8Array
  | { readonly link: string }
  | "folder/"
  | { readonly content: string; readonly mtime_s: number };
export type Tree = Readonly<Record<string, TreeEntry>>;

/** Writes a tree below a folder. */
export function writeTree(folder: string, tree: Tree): void {
  for (const [path, entry] of Object.entries(tree)) {
    const at = join(folder, path);
    mkdirSync(dirname(at), { recursive: true });
    if (entry === "folder/") mkdirSync(at, { recursive: true });
    else if (typeof entry === "string" || entry instanceof Uint8Array) writeFileSync(at, entry);
    else if ("link" in entry) symlinkSync(entry.link, at);
    else {
      writeFileSync(at, entry.content);
      utimesSync(at, entry.mtime_s, entry.mtime_s);
    }
  }
}

/** Writes the tree into a fresh folder and scans `roots` of it. */
export async function scanTree(
  tree: Tree,
  roots: readonly string[] = ["/models"],
  options: FsRunnerOptions & { readonly prepare?: (folder: string) => void } = {},
): Promise<FoundWeights> {
  using folder = temporaryFolder();
  writeTree(folder.path, tree);
  options.prepare?.(folder.path);
  const found = await discoverWeights(createFsRunner(folder.path, options), roots);
  // Every record of every test keeps to the schema that the rest of llmgw relies on.
  for (const weights of found.weights) v.parse(Weights, weights);
  return found;
}

/** The only model of a tree; throws when there are more or none. */
export async function scanOne(tree: Tree, roots?: readonly string[], options?: Parameters<typeof scanTree>[2]): Promise<Weights> {
  const { weights } = await scanTree(tree, roots, options);
  const [only, ...more] = weights;
  if (only === undefined || more.length > 0) throw new Error(`${weights.length} models: ${weights.map((one) => one.name).join(", ")}`);
  return only;
}

export const LLAMA_CONFIG = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  num_hidden_layers: 2,
  hidden_size: 64,
  num_attention_heads: 8,
  num_key_value_heads: 2,
  max_position_embeddings: 4096,
  vocab_size: 128,
  torch_dtype: "bfloat16",
};

/** Files of a whole model of two shards with an index, below `dir`. */
export function shardedModel(dir: string, config: object = LLAMA_CONFIG): Record<string, string | Uint8Array> {
  return {
    [`${dir}/config.json`]: JSON.stringify(config),
    [`${dir}/tokenizer.json`]: "{}",
    [`${dir}/model-00001-of-00002.safetensors`]: oneTensor("model.embed_tokens.weight", [128, 64]),
    [`${dir}/model-00002-of-00002.safetensors`]: oneTensor("lm_head.weight", [64, 128]),
    [`${dir}/model.safetensors.index.json`]: JSON.stringify({
      metadata: { total_size: 2 * 128 * 64 * 2 },
      weight_map: {
        "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
        "lm_head.weight": "model-00002-of-00002.safetensors",
      },
    }),
  };
}

/** Files of a whole model in one file, below `dir`. */
export function smallModel(dir: string, config: object = LLAMA_CONFIG): Record<string, string | Uint8Array> {
  return {
    [`${dir}/config.json`]: JSON.stringify(config),
    [`${dir}/tokenizer.json`]: "{}",
    [`${dir}/model.safetensors`]: oneTensor("model.embed_tokens.weight", [128, 64]),
  };
}

export function oneTensor(name: string, shape: readonly number[], dtype = "BF16"): Uint8Array {
  return renderSafetensors({ tensors: [{ name, dtype, shape }] });
}

const LLAMA_PAIRS: readonly GgufPair[] = [
  ["general.architecture", "text", "llama"],
  ["general.type", "text", "model"],
  ["general.file_type", "u32", 15],
  ["llama.block_count", "u32", 2],
  ["llama.embedding_length", "u32", 256],
  ["llama.attention.head_count", "u32", 8],
  ["llama.attention.head_count_kv", "u32", 2],
  ["llama.context_length", "u32", 8192],
  ["tokenizer.ggml.tokens", "text[]", ["a", "b", "c"]],
];
const LLAMA_TENSORS: readonly TensorOfGguf[] = [
  { name: "token_embd.weight", type: 12, dimensions: [256, 3] },
  { name: "output_norm.weight", type: 0, dimensions: [256] },
];

/** A whole GGUF model; `more` replaces pairs of the same key. */
export function smallGguf(more: readonly GgufPair[] = [], tensors: readonly TensorOfGguf[] = LLAMA_TENSORS): Uint8Array {
  const replaced = new Set(more.map(([key]) => key));
  return renderGguf({ pairs: [...LLAMA_PAIRS.filter(([key]) => !replaced.has(key)), ...more], tensors });
}

/** Files of an Ollama store at `store` with one model; blobs are named by a digest made from a letter. */
export function ollamaModel(
  store: string,
  model: string,
  blob: Uint8Array,
  extra: readonly { readonly kind: string; readonly letter: string; readonly content: string }[] = [],
): Record<string, string | Uint8Array> {
  const layers = [{ kind: "model", letter: "a", content: blob }, ...extra];
  const files: Record<string, string | Uint8Array> = {
    [`${store}/manifests/${model}`]: JSON.stringify({
      schemaVersion: 2,
      mediaType: "application/vnd.docker.distribution.manifest.v2+json",
      layers: layers.map(({ kind, letter, content }) => ({
        mediaType: `application/vnd.ollama.image.${kind}`,
        digest: `sha256:${letter.repeat(64)}`,
        size: content.length,
      })),
    }),
  };
  for (const { letter, content } of layers) files[`${store}/blobs/sha256-${letter.repeat(64)}`] = content;
  return files;
}
