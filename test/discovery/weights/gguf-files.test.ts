import { expect, test } from "bun:test";
import type { GgufPair, TensorOfGguf } from "../../../fakes/compose/weight-files.ts";
import { scanOne, scanTree, smallGguf, type Tree } from "../../support/weight-trees.ts";

test("a GGUF file anywhere below a root is a model, with its facts", async () => {
  const gguf = smallGguf();
  expect(await scanOne({ "models/some/where/mini-Q4_K_M.gguf": gguf })).toEqual({
    name: "mini-Q4_K_M",
    layout: "gguf",
    format: "gguf",
    path: "/models/some/where/mini-Q4_K_M.gguf",
    architecture: "llama",
    purpose: "chat",
    parameters: 256 * 4,
    dtype: "f32",
    quantization: "q4_k_m",
    context_length: 8192,
    layers: 2,
    hidden_size: 256,
    heads: 8,
    kv_heads: 2,
    head_dim: 32,
    vocab_size: 3,
    bytes: gguf.length,
    files: 1,
    state: "complete",
    problems: [],
    id: expect.stringMatching(/^[0-9a-f]{16}$/),
  });
});

test("a root may name one GGUF file", async () => {
  expect(await scanOne({ "models/a.gguf": smallGguf(), "models/b.gguf": smallGguf() }, ["/models/a.gguf"])).toMatchObject({ name: "a" });
});

const tensor = (name: string): readonly TensorOfGguf[] => [{ name, type: 12, dimensions: [256, 4] }];
const split = (no: number, count: number, tensors: number): readonly GgufPair[] => [
  ["split.no", "u16", no],
  ["split.count", "u16", count],
  ["split.tensors.count", "i32", tensors],
];
const parts: Tree = {
  "models/big-00001-of-00002.gguf": smallGguf(split(0, 2, 2), tensor("a")),
  "models/big-00002-of-00002.gguf": smallGguf(split(1, 2, 2), tensor("b")),
};

test("split files are one model, given to the engine by its first part", async () => {
  expect(await scanOne(parts)).toMatchObject({
    name: "big",
    path: "/models/big-00001-of-00002.gguf",
    files: 2,
    parameters: 2 * 1024,
    dtype: "q4_k",
    state: "complete",
  });
});

const broken: readonly (readonly [what: string, tree: Tree, words: RegExp])[] = [
  [
    "a missing part",
    { "models/big-00001-of-00002.gguf": parts["models/big-00001-of-00002.gguf"] ?? "" },
    /1 of 2 shards missing: big-00002/,
  ],
  [
    "another count in the header",
    { ...parts, "models/big-00002-of-00002.gguf": smallGguf(split(1, 3, 2), tensor("b")) },
    /header says 3 shards/,
  ],
  [
    "another number in the header",
    { ...parts, "models/big-00002-of-00002.gguf": smallGguf(split(0, 2, 2), tensor("b")) },
    /header says shard 1, its name 2/,
  ],
  [
    "fewer tensors than promised",
    {
      "models/big-00001-of-00002.gguf": smallGguf(split(0, 2, 5), tensor("a")),
      "models/big-00002-of-00002.gguf": smallGguf(split(1, 2, 5), tensor("b")),
    },
    /hold 2 tensors, the header promises 5/,
  ],
  [
    "parts of two architectures",
    { ...parts, "models/big-00002-of-00002.gguf": smallGguf([...split(1, 2, 2), ["general.architecture", "text", "qwen3"]], tensor("b")) },
    /different architectures: llama, qwen3/,
  ],
  ["a file that was cut off", { "models/a.gguf": smallGguf().slice(0, -800) }, /a.gguf: cut off: has \d+ bytes, needs \d+/],
  ["a header that was cut off", { "models/a.gguf": smallGguf().slice(0, 100) }, /a.gguf: cut off at byte 100 while reading/],
  ["an empty file", { "models/a.gguf": "" }, /empty/],
  ["a part under another name", { "models/a.gguf": smallGguf(split(0, 2, 2), tensor("a")) }, /one part of a split model/],
  ["a file without tensors", { "models/ggml-vocab.gguf": smallGguf([], []) }, /holds no tensors/],
  [
    "a pointer",
    { "models/a.gguf": `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 7\n` },
    /pointer to 7 bytes/,
  ],
];
for (const [what, tree, words] of broken) {
  test(`${what} makes a GGUF model incomplete, in words`, async () => {
    const model = await scanOne(tree);
    expect(model.state).toBe("incomplete");
    expect(model.problems.join("\n")).toMatch(words);
  });
}

test("a projector, an adapter and a draft head belong to the models beside them; an importance matrix to none", async () => {
  const kind = (type: string) => smallGguf([["general.type", "text", type]]);
  const { weights } = await scanTree({
    "models/v/mini.gguf": smallGguf(),
    "models/v/vision.gguf": kind("mmproj"),
    "models/v/mmproj-broken.gguf": "noise",
    "models/v/old-clip.gguf": smallGguf([["general.architecture", "text", "clip"]]),
    "models/v/lora.gguf": kind("adapter"),
    "models/v/mtp-mini.gguf": smallGguf(),
    "models/v/imatrix.gguf": kind("imatrix"),
    "models/other/alone.gguf": smallGguf(),
  });
  expect(weights.map((one) => [one.name, one.side_files])).toEqual([
    ["alone", undefined],
    ["mini", ["lora.gguf", "mmproj-broken.gguf", "mtp-mini.gguf", "old-clip.gguf", "vision.gguf"]],
  ]);
});

test("facts per layer, of experts and of latent attention come from the keys", async () => {
  const model = await scanOne({
    "models/a.gguf": smallGguf([
      ["general.architecture", "text", "deepseek2"],
      ["deepseek2.block_count", "u32", 3],
      ["deepseek2.embedding_length", "u64", 512n],
      ["deepseek2.attention.head_count", "u32[]", [16, 16, 16]],
      ["deepseek2.attention.head_count_kv", "u32[]", [0, 4, 0]],
      ["deepseek2.attention.kv_lora_rank", "u32", 512],
      ["deepseek2.rope.dimension_count", "u32", 64],
      ["deepseek2.expert_count", "u32", 8],
      ["deepseek2.expert_used_count", "u32", 2],
    ]),
  });
  expect(model).toMatchObject({
    layers: 3,
    attention_layers: 1,
    hidden_size: 512,
    heads: 16,
    kv_heads: 4,
    kv_lora_rank: 512,
    qk_rope_head_dim: 64,
    experts: 8,
    experts_per_token: 2,
  });
  expect(model).not.toHaveProperty("head_dim");
});

test("an old file type that the tensors contradict is not believed", async () => {
  const model = await scanOne({ "models/a.gguf": smallGguf([["general.file_type", "u32", 7]], tensor("a")) });
  expect(model.quantization).toBe("q4_k");
});

test("unquantized files have no quantization, pooling tells embedding and rerank", async () => {
  const plain: readonly TensorOfGguf[] = [{ name: "a", type: 30, dimensions: [256, 4] }];
  const model = await scanOne({ "models/a.gguf": smallGguf([["general.file_type", "u32", 32]], plain) });
  expect(model).toMatchObject({ dtype: "bf16" });
  expect(model).not.toHaveProperty("quantization");
  const pooled = (kind: number) => scanOne({ "models/a.gguf": smallGguf([["llama.pooling_type", "u32", kind]]) });
  expect((await pooled(1)).purpose).toBe("embedding");
  expect((await pooled(4)).purpose).toBe("rerank");
});
