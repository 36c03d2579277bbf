/** Small model files for fakes: real headers, a few hundred bytes of zeros for data. */
import { renderGguf, renderSafetensors } from "./weight-files.ts";

type Files = Readonly<Record<string, string | Uint8Array | { readonly link: string }>>;

const SHAPES: readonly (readonly [string, readonly number[]])[] = [
  ["model.embed_tokens.weight", [32, 8]],
  ["model.layers.0.self_attn.q_proj.weight", [8, 8]],
  ["model.layers.0.self_attn.k_proj.weight", [4, 8]],
  ["model.layers.0.mlp.gate_proj.weight", [16, 8]],
  ["model.norm.weight", [8]],
];

const CONFIG = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  num_hidden_layers: 1,
  hidden_size: 8,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: 4,
  max_position_embeddings: 4096,
  vocab_size: 32,
  torch_dtype: "bfloat16",
};

function tensors() {
  return SHAPES.map(([name, shape]) => ({ name, dtype: "BF16", shape }));
}

function json(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

/** A folder with one whole safetensors file. */
export function wholeFolder(at: string): Files {
  return {
    [`${at}/config.json`]: json(CONFIG),
    [`${at}/tokenizer.json`]: json({ version: "1.0" }),
    [`${at}/model.safetensors`]: renderSafetensors({ tensors: tensors(), metadata: { format: "pt" } }),
  };
}

/** Two shards in the index, one on disk. */
export function missingShard(at: string): Files {
  const names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] as const;
  const map = Object.fromEntries(SHAPES.map(([name], which) => [name, names[which < 3 ? 0 : 1]]));
  return {
    [`${at}/config.json`]: json(CONFIG),
    [`${at}/tokenizer.json`]: json({ version: "1.0" }),
    [`${at}/model.safetensors.index.json`]: json({ metadata: { total_size: 912 }, weight_map: map }),
    [`${at}/${names[0]}`]: renderSafetensors({ tensors: tensors().slice(0, 3) }),
  };
}

/** What a clone without git-lfs leaves. */
export function lfsPointer(at: string): Files {
  return {
    [`${at}/config.json`]: json(CONFIG),
    [`${at}/tokenizer.json`]: json({ version: "1.0" }),
    [`${at}/model.safetensors`]: `version https://git-lfs.github.com/spec/v1\noid sha256:${"ab".repeat(32)}\nsize 4976698672\n`,
  };
}

/** A snapshot of the Hugging Face hub cache: files are links into blobs. */
export function hubSnapshot(at: string, repository: string): Files {
  const folder = `${at}/models--${repository.replace("/", "--")}`;
  const commit = "5f0b02c75b57c5855da9ae460ce51323ea669d8a";
  const blobs: Readonly<Record<string, string | Uint8Array>> = {
    "config.json": json(CONFIG),
    "tokenizer.json": json({ version: "1.0" }),
    "model.safetensors": renderSafetensors({ tensors: tensors() }),
  };
  const files: Record<string, string | Uint8Array | { readonly link: string }> = { [`${folder}/refs/main`]: commit };
  for (const [at, [name, content]] of Object.entries(blobs).entries()) {
    const blob = String(at + 1).repeat(name.endsWith(".safetensors") ? 64 : 40);
    files[`${folder}/blobs/${blob}`] = content;
    files[`${folder}/snapshots/${commit}/${name}`] = { link: `../../blobs/${blob}` };
  }
  return files;
}

/** A small GGUF: two tensors in Q4_0 and F32. */
function gguf(name: string): Uint8Array {
  return renderGguf({
    pairs: [
      ["general.architecture", "text", "llama"],
      ["general.type", "text", "model"],
      ["general.name", "text", name],
      ["general.file_type", "u32", 2],
      ["llama.block_count", "u32", 1],
      ["llama.context_length", "u32", 8192],
      ["llama.embedding_length", "u32", 64],
      ["llama.attention.head_count", "u32", 4],
      ["llama.attention.head_count_kv", "u32", 2],
    ],
    tensors: [
      { name: "token_embd.weight", type: 2, dimensions: [64, 32] },
      { name: "output_norm.weight", type: 0, dimensions: [64] },
    ],
  });
}

/** One GGUF file in a folder. */
export function ggufFile(at: string, name: string): Files {
  return { [`${at}/${name}.gguf`]: gguf(name) };
}

/** Ollama's store with one model. */
export function ollamaStore(at: string, model: string, tag: string): Files {
  const blob = gguf(model);
  const digest = "5e".repeat(32);
  const manifest = {
    schemaVersion: 2,
    mediaType: "application/vnd.docker.distribution.manifest.v2+json",
    layers: [{ mediaType: "application/vnd.ollama.image.model", digest: `sha256:${digest}`, size: blob.length }],
  };
  return {
    [`${at}/manifests/registry.ollama.ai/library/${model}/${tag}`]: json(manifest),
    [`${at}/blobs/sha256-${digest}`]: blob,
  };
}
