import { expect, test } from "bun:test";
import { renderSafetensors } from "../../../fakes/compose/weight-files.ts";
import { LLAMA_CONFIG, oneTensor, scanOne, scanTree, shardedModel, smallModel, type Tree } from "../../support/weight-trees.ts";

function without(tree: Tree, path: string): Tree {
  return Object.fromEntries(Object.entries(tree).filter(([key]) => key !== path));
}

const sharded = shardedModel("models/chat");
const shard1 = "models/chat/model-00001-of-00002.safetensors";
const shard2 = "models/chat/model-00002-of-00002.safetensors";
const index = "models/chat/model.safetensors.index.json";

test("a whole model folder is complete, with its facts", async () => {
  const { weights, warnings } = await scanTree(sharded);
  expect(warnings).toEqual([]);
  expect(weights).toEqual([
    {
      name: "chat",
      layout: "folder",
      format: "safetensors",
      path: "/models/chat",
      architecture: "LlamaForCausalLM",
      purpose: "chat",
      parameters: 2 * 128 * 64,
      dtype: "bf16",
      context_length: 4096,
      layers: 2,
      hidden_size: 64,
      heads: 8,
      kv_heads: 2,
      head_dim: 8,
      vocab_size: 128,
      bytes: (sharded[shard1]?.length ?? 0) + (sharded[shard2]?.length ?? 0),
      files: 2,
      state: "complete",
      problems: [],
      id: expect.stringMatching(/^[0-9a-f]{16}$/),
    },
  ]);
});

test("a root that is itself a model folder is one model", async () => {
  expect(await scanOne(sharded, ["/models/chat/"])).toMatchObject({ name: "chat", path: "/models/chat", state: "complete" });
});

test("two copies have the same id, another length or header another one", async () => {
  const { weights } = await scanTree({
    ...smallModel("models/a"),
    ...smallModel("models/b"),
    ...smallModel("models/c"),
    "models/c/model.safetensors": oneTensor("model.other.weight", [128, 64]),
  });
  const [a, b, c] = weights.map((one) => one.id);
  expect(a).toBe(b);
  expect(a).not.toBe(c);
});

const incomplete: readonly (readonly [what: string, tree: Tree, words: RegExp])[] = [
  ["a shard that the index names and that is missing", without(sharded, shard2), /1 of 2 shards missing: model-00002-of-00002/],
  ["a shard missing by the numbers", without(without(sharded, shard2), index), /1 of 2 shards missing: model-00002-of-00002/],
  [
    "a shard that neither index nor disk has",
    {
      ...without(sharded, shard2),
      [index]: JSON.stringify({ weight_map: { "model.embed_tokens.weight": "model-00001-of-00002.safetensors" } }),
    },
    /1 of 2 shards missing/,
  ],
  ["a shard that was cut off", { ...sharded, [shard2]: sharded[shard2]?.slice(0, 500) ?? "" }, /00002.*cut off: has 500 bytes, needs 164/],
  ["a shard that is too long", { ...sharded, [shard2]: Buffer.concat([Buffer.from(sharded[shard2] ?? ""), Buffer.alloc(3)]) }, /too long/],
  ["a shard of zero bytes", { ...sharded, [shard2]: "" }, /00002.*empty \(0 bytes\)/],
  [
    "a git-lfs pointer",
    { ...sharded, [shard2]: `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 4976698672\n` },
    /git-lfs pointer to 4976698672 bytes.*without its large files/,
  ],
  ["a link that leads nowhere", { ...without(sharded, shard2), [shard2]: { link: "../gone" } }, /00002.*leads nowhere \(..\/gone\)/],
  ["a header that is noise", { ...sharded, [shard2]: "x".repeat(2000) }, /00002.*not a safetensors file/],
  ["a tensor that the index places elsewhere", { ...sharded, [shard2]: oneTensor("other", [64, 128]) }, /lacks tensors.*lm_head.weight/],
  ["an index that is not JSON", { ...sharded, [index]: "{" }, /index.json: not JSON/],
  ["an index without a map", { ...sharded, [index]: "{}" }, /no weight_map/],
  [
    "an index that leads out of the folder",
    { ...sharded, [index]: JSON.stringify({ weight_map: { a: "../../etc/x.safetensors" } }) },
    /not plain .safetensors names: ..\/..\/etc/,
  ],
  ["an index with a hidden name", { ...sharded, [index]: JSON.stringify({ weight_map: { a: ".x.safetensors" } }) }, /not plain/],
  ["an index of another ending", { ...sharded, [index]: JSON.stringify({ weight_map: { a: "x.bin" } }) }, /not plain/],
  ["a missing config.json", without(sharded, "models/chat/config.json"), /config.json: missing/],
  ["a config.json that is no object", { ...sharded, "models/chat/config.json": "[]" }, /config.json: not a JSON object/],
  ["a config.json that is broken", { ...sharded, "models/chat/config.json": "{" }, /config.json: not JSON/],
  ["a missing tokenizer", without(sharded, "models/chat/tokenizer.json"), /no tokenizer/],
  ["an empty tokenizer", { ...sharded, "models/chat/tokenizer.json": "" }, /tokenizer.json: empty/],
  [
    "only pickle files",
    { "models/p/config.json": JSON.stringify(LLAMA_CONFIG), "models/p/tokenizer.json": "{}", "models/p/pytorch_model.bin": "pickle" },
    /only pickle files \(pytorch_model.bin\).*run code/,
  ],
];
for (const [what, tree, words] of incomplete) {
  test(`${what} makes a model incomplete, in words`, async () => {
    const model = await scanOne(tree);
    expect(model.state).toBe("incomplete");
    expect(model.problems.join("\n")).toMatch(words);
  });
}

test("what is only worth watching leaves a model complete", async () => {
  const model = await scanOne({
    ...sharded,
    "models/chat/spare.safetensors": oneTensor("spare", [1]),
    [index]: String(sharded[index]).replace("32768", "99999"),
  });
  expect(model.state).toBe("complete");
  expect(model.problems).toEqual([
    "not named by the index, left out: spare.safetensors",
    "the index promises 99999 bytes of tensors, the shards hold 32768",
  ]);
});

test("Mistral's copy beside the usual files is left out, and alone it is a model of its own", async () => {
  const consolidated = oneTensor("tok_embeddings.weight", [128, 64]);
  const both = await scanOne({
    ...smallModel("models/m"),
    "models/m/consolidated.safetensors": consolidated,
    "models/m/params.json": "{}",
  });
  expect(both).toMatchObject({ format: "safetensors", files: 1, state: "complete" });
  const alone = await scanOne({
    "models/m/params.json": JSON.stringify({
      dim: 64,
      n_layers: 2,
      n_heads: 8,
      n_kv_heads: 2,
      head_dim: 16,
      vocab_size: 128,
      moe: { num_experts: 4 },
    }),
    "models/m/tekken.json": "{}",
    "models/m/consolidated.safetensors": consolidated,
  });
  expect(alone).toMatchObject({ format: "mistral", layers: 2, head_dim: 16, experts: 4, state: "complete" });
});

test("adapters and pipelines are no models; an adapter beside a model is named there", async () => {
  const adapter = { "adapter_config.json": "{}", "adapter_model.safetensors": oneTensor("lora", [1]) };
  const at = (dir: string) => Object.fromEntries(Object.entries(adapter).map(([name, content]) => [`${dir}/${name}`, content]));
  const { weights } = await scanTree({
    ...at("models/lora"),
    "models/pipeline/model_index.json": "{}",
    ...smallModel("models/pipeline/text_encoder"),
    ...smallModel("models/chat"),
    ...at("models/chat"),
  });
  expect(weights.map((one) => [one.name, one.side_files])).toEqual([["chat", ["adapter_model.safetensors"]]]);
});

test("sub-folders of a model are not models of their own", async () => {
  const { weights } = await scanTree({
    ...smallModel("models/chat"),
    ...smallModel("models/chat/original"),
    ...smallModel("models/chat/fp16"),
  });
  expect(weights.map((one) => one.path)).toEqual(["/models/chat"]);
});

test("a download into a local folder that lacks files is downloading; a leftover beside a whole model is not", async () => {
  const leftover = { "models/chat/.cache/huggingface/download/x.abc.incomplete": "x" };
  expect(await scanOne({ ...without(sharded, shard2), ...leftover })).toMatchObject({ state: "downloading" });
  expect(await scanOne({ ...sharded, ...leftover })).toMatchObject({ state: "complete" });
  const begun = await scanOne({ "models/chat/config.json": "{}", ...leftover });
  expect(begun).toMatchObject({ state: "downloading", files: 0 });
  expect(begun).not.toHaveProperty("format");
});

test("auto_map is told and is no reason against a model", async () => {
  const model = await scanOne(smallModel("models/own", { ...LLAMA_CONFIG, auto_map: { AutoModel: "modeling.Own" } }));
  expect(model).toMatchObject({ state: "complete", needs_remote_code: true });
});

test("a config in which every field is nonsense costs the facts and nothing else", async () => {
  const nonsense = Object.fromEntries(Object.keys(LLAMA_CONFIG).map((key) => [key, { __proto__: [] }]));
  const model = await scanOne(smallModel("models/odd", { ...nonsense, quantization_config: 7, text_config: [], auto_map: null }));
  expect(model).toMatchObject({ state: "complete", parameters: 8192 });
  for (const key of ["layers", "heads", "architecture", "quantization", "needs_remote_code"]) expect(model).not.toHaveProperty(key);
});

test("packed weights count what they hold, and scales count nothing", async () => {
  const awq = await scanOne({
    ...smallModel("models/awq", { ...LLAMA_CONFIG, quantization_config: { quant_method: "awq", bits: 4, group_size: 128 } }),
    "models/awq/model.safetensors": renderSafetensors({
      tensors: [
        { name: "l.qweight", dtype: "I32", shape: [64, 8] },
        { name: "l.qzeros", dtype: "I32", shape: [4, 8] },
        { name: "l.scales", dtype: "F16", shape: [4, 64] },
        { name: "norm.weight", dtype: "F16", shape: [64] },
      ],
    }),
  });
  expect(awq).toMatchObject({ parameters: 64 * 64 + 64, dtype: "i32", quantization: "awq" });
  const mxfp4 = await scanOne({
    ...smallModel("models/oss", { ...LLAMA_CONFIG, quantization_config: { quant_method: "mxfp4" } }),
    "models/oss/model.safetensors": renderSafetensors({
      tensors: [
        { name: "experts.down_proj_blocks", dtype: "U8", shape: [10, 16] },
        { name: "experts.down_proj_scales", dtype: "U8", shape: [10] },
      ],
    }),
  });
  expect(mxfp4).toMatchObject({ parameters: 320, quantization: "mxfp4" });
});

test("a packed weight of unknown width leaves the parameters unknown", async () => {
  const model = await scanOne({ ...smallModel("models/q"), "models/q/model.safetensors": oneTensor("l.qweight", [8], "I32") });
  expect(model).not.toHaveProperty("parameters");
});

test("names from disk cannot write to the terminal", async () => {
  const model = await scanOne({ "models/bad\u001b[31m/x.safetensors": "" });
  expect(JSON.stringify([model.name, model.problems])).not.toContain("\\u001b");
  expect(model.name).toBe("bad\\u{1b}[31m");
});
