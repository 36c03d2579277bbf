import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  concat,
  type GgufFile,
  type GgufPair,
  ggufTensorBytes,
  renderGguf,
  renderGgufHeader,
  u32,
  u64,
} from "../../../fakes/compose/weight-files.ts";
import { type GgufTensor, readGguf } from "../../../src/discovery/weights/gguf.ts";
import type { ByteSource } from "../../../src/discovery/weights/header-problem.ts";
import { GGUF } from "../../../src/discovery/weights/limits.ts";

function source(bytes: Uint8Array, size = bytes.length): ByteSource & { longest: number; total: number } {
  const made = {
    size,
    longest: 0,
    total: 0,
    read: async (offset: number, length: number) => {
      made.longest = Math.max(made.longest, length);
      const part = bytes.slice(offset, offset + length);
      made.total += part.length;
      return part;
    },
  };
  return made;
}

async function header(bytes: Uint8Array, size?: number) {
  const verdict = await readGguf(source(bytes, size));
  if (verdict.kind === "bad") throw new Error(verdict.problem);
  return verdict.header;
}

async function problem(bytes: Uint8Array, size?: number): Promise<string> {
  const verdict = await readGguf(source(bytes, size));
  return verdict.kind === "bad" ? verdict.problem : "ok";
}

const magic = new TextEncoder().encode("GGUF");
const start = (tensors: number | bigint, pairs: number | bigint, version = 3) => concat([magic, u32(version), u64(tensors), u64(pairs)]);
const text = (value: string) => concat([u64(new TextEncoder().encode(value).length), new TextEncoder().encode(value)]);
const room = new Uint8Array(4096);

test("elements, bytes by type and the needed length come from the tensors", async () => {
  const found = await header(
    renderGguf({
      pairs: [["general.architecture", "text", "llama"]],
      tensors: [
        { name: "token_embd.weight", type: 12, dimensions: [256, 4] },
        { name: "output_norm.weight", type: 0, dimensions: [256] },
      ],
    }),
  );
  expect(found.elements).toBe(256 * 4 + 256);
  expect(found.types.get(12)).toEqual({ tensors: 1, elements: 1024, size_bytes: 576 });
  expect(found.needed_bytes).toBe(found.data_start + 576 + 1024);
});

test("a vocabulary larger than the window is counted and not kept, read in pieces of one window", async () => {
  const tokens = Array.from({ length: 120_000 }, (_, index) => `token-${index}`);
  const from = source(
    renderGguf({
      pairs: [
        ["tokenizer.ggml.tokens", "text[]", tokens],
        ["general.name", "text", "after"],
      ],
      tensors: [{ name: "a", type: 0, dimensions: [1] }],
    }),
  );
  const verdict = await readGguf(from);
  if (verdict.kind === "bad") throw new Error(verdict.problem);
  expect(verdict.header.metadata.get("tokenizer.ggml.tokens")).toEqual({ kind: "list", count: 120_000 });
  expect(verdict.header.metadata.get("general.name")).toEqual({ kind: "scalar", value: "after" });
  expect(from.longest).toBeLessThanOrEqual(GGUF.window_bytes);
});

test("a long text is stepped over", async () => {
  const found = await header(renderGguf({ pairs: [["tokenizer.chat_template", "text", "x".repeat(5000)]] }));
  expect(found.metadata.get("tokenizer.chat_template")).toEqual({ kind: "long-text", size_bytes: 5000 });
});

test("another alignment moves the data", async () => {
  const file: GgufFile = { pairs: [["general.alignment", "u32", 128]], tensors: [{ name: "a", type: 0, dimensions: [3] }], alignment: 128 };
  expect((await header(renderGguf(file))).data_start % 128).toBe(0);
});

test("the hash covers the header and nothing behind it", async () => {
  const file = renderGguf({ pairs: [["general.name", "text", "one"]], tensors: [{ name: "a", type: 0, dimensions: [64] }] });
  const other = file.slice();
  other[other.length - 1] = 7;
  expect((await header(file)).sha256).toBe((await header(other)).sha256);
});

test("a type newer than the table is counted without its bytes", async () => {
  const found = await header(renderGguf({ tensors: [{ name: "a", type: 99, dimensions: [64] }] }));
  expect(found.newer_types).toEqual([99]);
  expect(found.elements).toBe(64);
});

const tensor = (name: string, dimensions: readonly (number | bigint)[], type: number, offset: number | bigint) =>
  concat([text(name), u32(dimensions.length), ...dimensions.map(u64), u32(type), u64(offset)]);

const refused: readonly (readonly [what: string, bytes: Uint8Array, words: RegExp])[] = [
  ["another magic", concat([new TextEncoder().encode("GGML"), room]), /not a GGUF file/],
  ["a big-endian file", concat([magic, new Uint8Array([0, 0, 0, 3]), room]), /big-endian/],
  ["version 1", concat([start(0, 0, 1), room]), /version 1/],
  ["a newer version", concat([start(0, 0, 4), room]), /version 4 is newer/],
  ["too many keys", concat([start(0, 100_001), room]), /100001 keys/],
  ["too many tensors", concat([start(1_000_001, 0), room]), /1000001 tensors/],
  ["the largest count", concat([start(2n ** 64n - 1n, 0), room]), /tensors: more than/],
  ["more tensors than fit", concat([start(1000, 0), room]), /cut off/],
  ["an empty key", concat([start(0, 1), u64(0), room]), /is empty/],
  ["a key of 2^63 bytes", concat([start(0, 1), u64(2n ** 63n), room]), /cut off/],
  ["a key above 65,535 bytes", concat([start(0, 1), u64(65_536), new Uint8Array(70_000)]), /longer than 65535/],
  ["a repeated key", concat([start(0, 2), text("a"), u32(0), new Uint8Array(1), text("a"), u32(0), room]), /key a occurs twice/],
  ["an unknown value type", concat([start(0, 1), text("a"), u32(13), room]), /unknown type 13/],
  ["a truth value of 2", concat([start(0, 1), text("a"), u32(7), new Uint8Array([2]), room]), /neither true nor false/],
  ["a list of 2^60", concat([start(0, 1), text("a"), u32(9), u32(10), u64(2n ** 60n), room]), /cut off/],
  ["a list of an unknown type", concat([start(0, 1), text("a"), u32(9), u32(77), u64(1), room]), /unknown type 77/],
  [
    "lists nested five deep",
    concat([start(0, 1), text("a"), u32(9), ...Array.from({ length: 5 }, () => concat([u32(9), u64(1)])), room]),
    /nested deeper than 4/,
  ],
  ["an alignment of 3", renderGguf({ pairs: [["general.alignment", "u32", 3]] }), /alignment/],
  ["an alignment above 4096", renderGguf({ pairs: [["general.alignment", "u32", 8192]] }), /alignment/],
  ["an alignment that is a text", renderGguf({ pairs: [["general.alignment", "text", "32"]] }), /alignment/],
  ["a repeated tensor", concat([start(2, 0), tensor("t", [1], 0, 0), tensor("t", [1], 0, 32), room]), /tensor t occurs twice/],
  ["five dimensions", concat([start(1, 0), tensor("t", [1, 1, 1, 1, 1], 0, 0), room]), /5 dimensions/],
  ["a dimension of 0", concat([start(1, 0), tensor("t", [0], 0, 0), room]), /dimension of 0/],
  ["a dimension above 2^32", concat([start(1, 0), tensor("t", [2n ** 32n + 1n], 0, 0), room]), /dimension of/],
  ["a product above 2^53", concat([start(1, 0), tensor("t", [2n ** 32n, 2n ** 32n], 0, 0), room]), /too large/],
  ["a tensor name of 64 bytes", concat([start(1, 0), tensor("t".repeat(64), [1], 0, 0), room]), /longer than 63/],
  ["a removed type", concat([start(1, 0), tensor("t", [32], 4, 0), room]), /old quantization/],
  ["a broken block", concat([start(1, 0), tensor("t", [33], 2, 0), room]), /not a multiple of 32/],
  ["an offset off the alignment", concat([start(1, 0), tensor("t", [1], 0, 1), room]), /not a multiple of 32/],
  ["an offset above 2^53", concat([start(1, 0), tensor("t", [1], 0, 2n ** 60n), room]), /offset/],
  ["a key that is not UTF-8", concat([start(0, 1), u64(1), new Uint8Array([0xff]), u32(0), room]), /not UTF-8/],
];
for (const [what, bytes, words] of refused) {
  test(`${what} in a GGUF header is refused`, async () => {
    expect(await problem(bytes)).toMatch(words);
  });
}

test("a header that goes on past 50 MB is refused, and read only one window at a time", async () => {
  const endless: ByteSource & { longest: number } = {
    size: 2 ** 40,
    longest: 0,
    read: async (offset, length) => {
      endless.longest = Math.max(endless.longest, length);
      const bytes = new Uint8Array(length);
      if (offset === 0) bytes.set(concat([start(0, 1), text("a"), u32(9), u32(0), u64(2 ** 39)]));
      return bytes;
    },
  };
  expect(await readGguf(endless)).toMatchObject({ kind: "bad", problem: expect.stringContaining("longer than 50000000") });
  expect(endless.longest).toBeLessThanOrEqual(GGUF.window_bytes);
});

test("a text above 10 MB is refused", async () => {
  expect(await problem(concat([start(0, 1), text("a"), u32(8), u64(10_000_001), room]), 2e7)).toMatch(/longer than 10000000/);
});

const key = fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 12 }).map((name) => `k.${name}`);
const pair: fc.Arbitrary<GgufPair> = fc.oneof(
  fc.tuple(key, fc.constant("u8" as const), fc.nat({ max: 255 })),
  fc.tuple(key, fc.constant("i8" as const), fc.integer({ min: -128, max: 127 })),
  fc.tuple(key, fc.constant("u16" as const), fc.nat({ max: 65_535 })),
  fc.tuple(key, fc.constant("i16" as const), fc.integer({ min: -32_768, max: 32_767 })),
  fc.tuple(key, fc.constant("u32" as const), fc.nat()),
  fc.tuple(key, fc.constant("i32" as const), fc.integer()),
  fc.tuple(key, fc.constant("f32" as const), fc.float({ noNaN: true })),
  fc.tuple(key, fc.constant("f64" as const), fc.double({ noNaN: true })),
  fc.tuple(key, fc.constant("u64" as const), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })),
  fc.tuple(key, fc.constant("i64" as const), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
  fc.tuple(key, fc.constant("bool" as const), fc.boolean()),
  fc.tuple(key, fc.constant("text" as const), fc.string({ unit: "grapheme" })),
  fc.tuple(key, fc.constant("u32[]" as const), fc.array(fc.nat(), { maxLength: 6 })),
  fc.tuple(key, fc.constant("text[]" as const), fc.array(fc.string({ unit: "grapheme" }), { maxLength: 6 })),
);
const files = fc.record({
  pairs: fc.uniqueArray(pair, { selector: ([name]) => name, maxLength: 8 }),
  tensors: fc.uniqueArray(
    fc.record({
      name: fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 20 }),
      type: fc.constantFrom(0, 1, 8, 12, 30),
      dimensions: fc.tuple(fc.constantFrom(256, 512), fc.integer({ min: 1, max: 3 })),
    }),
    { selector: (one) => one.name, maxLength: 5 },
  ),
});

test("what was rendered is what is parsed", async () => {
  await fc.assert(
    fc.asyncProperty(files, async (file) => {
      const seen: GgufTensor[] = [];
      const verdict = await readGguf(source(renderGguf(file)), (one) => seen.push(one));
      if (verdict.kind === "bad") throw new Error(verdict.problem);
      for (const [name, type, value] of file.pairs) {
        const parsed = verdict.header.metadata.get(name);
        if (type === "text[]") expect(parsed).toEqual({ kind: "list", count: value.length });
        else if (type === "u32[]") expect(parsed).toEqual({ kind: "list", count: value.length, items: [...value] });
        else expect(parsed).toEqual({ kind: "scalar", value });
      }
      expect(seen.map(({ name, type, dimensions }) => ({ name, type, dimensions: [...dimensions] }))).toEqual(
        file.tensors.map(({ name, type, dimensions }) => ({ name, type, dimensions: [...dimensions] })),
      );
      expect(seen.map((one) => one.size_bytes)).toEqual(file.tensors.map((one) => ggufTensorBytes(one.type, one.dimensions)));
      if (file.tensors.length > 0) expect(verdict.header.needed_bytes).toBeLessThanOrEqual(renderGgufHeader(file).length);
    }),
    { numRuns: 200 },
  );
});

test("any cut, any flipped byte and any hostile header ends in a verdict, and no read is longer than the window", async () => {
  const whole = renderGguf({
    pairs: [
      ["general.architecture", "text", "llama"],
      ["llama.attention.head_count_kv", "u32[]", [8, 8]],
      ["tokenizer.ggml.tokens", "text[]", ["a", "bc"]],
      ["general.quantization_version", "u32", 2],
    ],
    tensors: [
      { name: "token_embd.weight", type: 8, dimensions: [32, 2] },
      { name: "output.weight", type: 1, dimensions: [5] },
    ],
  });
  const check = async (bytes: Uint8Array, size?: number) => {
    const from = source(bytes, size);
    const verdict = await readGguf(from);
    expect(["ok", "bad"]).toContain(verdict.kind);
    expect(from.longest).toBeLessThanOrEqual(GGUF.window_bytes);
    return verdict;
  };
  const { needed_bytes } = await header(whole);
  for (let length = 0; length < needed_bytes; length++) {
    const verdict = await check(whole.subarray(0, length));
    if (verdict.kind === "bad") expect(verdict).toMatchObject({ cutOff: true, problem: expect.stringContaining("cut off at byte") });
    else expect(verdict.header.needed_bytes).toBeGreaterThan(length);
  }
  const flip = fc.tuple(fc.nat({ max: whole.length - 1 }), fc.integer({ min: 1, max: 255 }));
  await fc.assert(
    fc.asyncProperty(flip, async ([at, bits]) => {
      await check(whole.map((byte, index) => (index === at ? byte ^ bits : byte)));
    }),
    { numRuns: 1000 },
  );
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), fc.nat({ max: 5 }), fc.nat({ max: 5 }), async (noise, tensors, pairs) => {
      await check(noise);
      await check(concat([start(tensors, pairs), noise]));
      // A source that promises more than it has stands for a file that shrinks while it is read.
      await check(concat([start(tensors, pairs), noise]), 2 ** 40);
    }),
    { numRuns: 500 },
  );
});
