import { expect, test } from "bun:test";
import fc from "fast-check";
import { configFacts, modelOptFacts, paramsFacts, purposeOf } from "../../../src/discovery/weights/model-config.ts";
import { JsonProblem, parseJson } from "../../../src/discovery/weights/strict-json.ts";
import { scanOne, smallModel } from "../../support/weight-trees.ts";

const cases: readonly (readonly [what: string, config: object, facts: object])[] = [
  [
    "the older names of GPT-2",
    { n_layer: 12, n_embd: 768, n_head: 12, n_positions: 1024 },
    { layers: 12, hidden_size: 768, head_dim: 64, kv_heads: 12, context_length: 1024 },
  ],
  [
    "a multimodal model's language part",
    { text_config: { num_hidden_layers: 4, hidden_size: 8, num_attention_heads: 2 } },
    { layers: 4, hidden_size: 8, heads: 2 },
  ],
  ["a language part two levels down", { thinker_config: { text_config: { num_hidden_layers: 4 } } }, { layers: 4 }],
  ["multi-query attention", { num_hidden_layers: 2, num_attention_heads: 71, multi_query: true }, { heads: 71, kv_heads: 1 }],
  [
    "latent attention, whose heads are not hidden / heads",
    { num_hidden_layers: 61, hidden_size: 7168, num_attention_heads: 128, kv_lora_rank: 512, qk_rope_head_dim: 64 },
    { kv_lora_rank: 512, qk_rope_head_dim: 64, head_dim: undefined },
  ],
  ["experts of DeepSeek", { n_routed_experts: 256, num_experts_per_tok: 8 }, { experts: 256, experts_per_token: 8 }],
  ["experts of Mixtral", { num_local_experts: 8, num_experts_per_tok: 2 }, { experts: 8, experts_per_token: 2 }],
  ["a window", { num_hidden_layers: 32, sliding_window: 4096 }, { sliding_window: 4096 }],
  ["a window that is off", { sliding_window: 4096, use_sliding_window: false }, { sliding_window: undefined }],
  ["a window of null", { sliding_window: null }, { sliding_window: undefined }],
  [
    "layer types",
    { num_hidden_layers: 4, layer_types: ["sliding_attention", "full_attention", "linear_attention", "sliding_attention"] },
    { attention_layers: 1, sliding_layers: 2 },
  ],
  [
    "every sixth layer full",
    { num_hidden_layers: 26, sliding_window: 512, sliding_window_pattern: 6 },
    { attention_layers: 4, sliding_layers: 22 },
  ],
  ["every fourth layer full", { num_hidden_layers: 48, full_attention_interval: 4 }, { attention_layers: 12 }],
  ["layers by letter", { num_hidden_layers: 6, hybrid_override_pattern: "M-M*-M" }, { attention_layers: 1 }],
  [
    "a stretched context, which stays as it is written",
    { max_position_embeddings: 32768, rope_scaling: { type: "yarn", factor: 4 } },
    { context_length: 32768 },
  ],
  ["zeros, which say nothing", { num_hidden_layers: 0, vocab_size: 0 }, { layers: undefined, vocab_size: undefined }],
  ["gptq", { quantization_config: { quant_method: "gptq", bits: 8 } }, { quantization: "gptq", packed_bits: 8 }],
  ["awq without bits", { quantization_config: { quant_method: "AWQ" } }, { quantization: "awq", packed_bits: 4 }],
  [
    "compressed-tensors",
    { quantization_config: { quant_method: "compressed-tensors", config_groups: { group_0: { weights: { num_bits: 4 } } } } },
    { quantization: "compressed-tensors", packed_bits: 4 },
  ],
  [
    "modelopt, named by what it made",
    { quantization_config: { quant_method: "modelopt", quant_algo: "NVFP4" } },
    { quantization: "nvfp4", fp4: true },
  ],
  [
    "four bits of bitsandbytes",
    { quantization_config: { quant_method: "bitsandbytes", load_in_4bit: true } },
    { quantization: "bitsandbytes", fp4: true },
  ],
];
for (const [what, config, facts] of cases) {
  test(`config.json: ${what}`, () => {
    expect(configFacts(config)).toMatchObject(facts);
  });
}

test("a kind of layer that we do not know leaves the kinds unknown", () => {
  expect(configFacts({ num_hidden_layers: 2, layer_types: ["full_attention", "novel_attention"] })).not.toHaveProperty("attention_layers");
  expect(configFacts({ num_hidden_layers: 2, layers_block_type: ["mamba", "mamba"] })).toMatchObject({ attention_layers: 0 });
});

test("the purpose is told by the class name, and unknown where it says nothing", () => {
  const names = ["LlamaForCausalLM", "GPT2LMHeadModel", "Qwen2VLForConditionalGeneration", "WhisperForConditionalGeneration", "BertModel"];
  expect(names.map(purposeOf)).toEqual(["chat", "chat", "chat", "audio", "embedding"]);
  expect(["XLMRobertaForSequenceClassification", "ViTForImageClassification", undefined].map(purposeOf)).toEqual([
    "rerank",
    undefined,
    undefined,
  ]);
});

test("a sentence-transformers model is for embeddings whatever its class", async () => {
  const model = await scanOne({ ...smallModel("models/e"), "models/e/modules.json": "[]" });
  expect(model.purpose).toBe("embedding");
});

test("an older ModelOpt export names its quantization in a file beside the config", async () => {
  const file = { quantization: { quant_algo: "FP8", kv_cache_quant_algo: null } };
  expect(modelOptFacts(file).quantization).toBe("fp8");
  expect((await scanOne({ ...smallModel("models/m"), "models/m/hf_quant_config.json": JSON.stringify(file) })).quantization).toBe("fp8");
});

test("vocabulary files of every usual tokenizer count, half a set does not", async () => {
  const state = async (files: readonly string[]) => {
    const { "models/t/tokenizer.json": _whole, ...rest } = smallModel("models/t");
    return (await scanOne({ ...rest, ...Object.fromEntries(files.map((name) => [`models/t/${name}`, "x"])) })).state;
  };
  for (const whole of [
    ["tokenizer.model"],
    ["vocab.json", "merges.txt"],
    ["tokenizer_config.json", "vocab.txt"],
    ["tekken.json"],
    ["qwen.tiktoken"],
  ]) {
    expect(await state(whole)).toBe("complete");
  }
  for (const half of [["vocab.json"], ["merges.txt"], ["tokenizer_config.json"]]) expect(await state(half)).toBe("incomplete");
});

test("Infinity and a repeated key, which Python writes and reads, are no reason against a config", async () => {
  const config =
    '{"architectures":["MambaModel"],"num_hidden_layers":1,"num_hidden_layers":2,"time_step_limit":[0.0,Infinity,-Infinity,NaN]}';
  expect(await scanOne({ ...smallModel("models/m"), "models/m/config.json": config })).toMatchObject({ layers: 2, state: "complete" });
});

test("any JSON as a config gives facts or nothing, and never a crash", () => {
  const field = fc.constantFrom(
    "text_config",
    "quantization_config",
    "architectures",
    "num_hidden_layers",
    "layer_types",
    "auto_map",
    "moe",
    "__proto__",
  );
  const config = fc.oneof(fc.jsonValue(), fc.dictionary(field, fc.jsonValue()));
  fc.assert(
    fc.property(config, (value) => {
      for (const facts of [configFacts(value), paramsFacts(value), modelOptFacts(value)]) {
        for (const [key, fact] of Object.entries(facts ?? {})) {
          // A model without any attention is one that says so.
          if (key !== "attention_layers") expect([0, "", null]).not.toContain(fact as never);
        }
      }
    }),
    { numRuns: 500 },
  );
});

test("the strict reader agrees with JSON.parse on all JSON, and refuses what is cut short", () => {
  const strict = { repeated: "refuse" } as const;
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5, stringUnit: "binary" }), fc.nat({ max: 3 }), (value, spaces) => {
      const text = JSON.stringify(value, null, spaces);
      expect(JSON.stringify(parseJson(text, strict))).toBe(JSON.stringify(JSON.parse(text)));
      if (/[\]}"]$/.test(text)) expect(() => parseJson(text.slice(0, -1), strict)).toThrow(JsonProblem);
    }),
    { numRuns: 500 },
  );
});

test("noise as JSON is refused where JSON.parse refuses it", () => {
  const noise = fc.string({ unit: fc.constantFrom(...'{}[]":,0-1.e+tfn\\u ') });
  const parsed = (parse: () => unknown) => {
    try {
      return JSON.stringify(parse());
    } catch (thrown) {
      if (thrown instanceof JsonProblem || thrown instanceof SyntaxError) return "refused";
      throw thrown;
    }
  };
  fc.assert(
    fc.property(noise, (text) => {
      expect(parsed(() => parseJson(text, { repeated: "last" }))).toBe(parsed(() => JSON.parse(text)));
    }),
    { numRuns: 3000 },
  );
});
