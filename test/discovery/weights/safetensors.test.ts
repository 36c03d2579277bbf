import { expect, test } from "bun:test";
import fc from "fast-check";
import { concat, renderSafetensors, renderSafetensorsHeader, safetensorsWithHeader, u64 } from "../../../fakes/compose/weight-files.ts";
import type { ByteSource } from "../../../src/discovery/weights/header-problem.ts";
import { SAFETENSORS } from "../../../src/discovery/weights/limits.ts";
import { readSafetensors } from "../../../src/discovery/weights/safetensors.ts";

/** Bytes as a source that notes the longest read. */
function source(bytes: Uint8Array, size = bytes.length): ByteSource & { longest: number } {
  const made = {
    size,
    longest: 0,
    read: async (offset: number, length: number) => {
      made.longest = Math.max(made.longest, length);
      return bytes.slice(offset, offset + length);
    },
  };
  return made;
}

async function problem(bytes: Uint8Array): Promise<string> {
  const verdict = await readSafetensors(source(bytes));
  return verdict.kind === "bad" ? verdict.problem : "ok";
}

const entry = (dtype: string, shape: readonly number[], begin: number, end: number) =>
  JSON.stringify({ dtype, shape, data_offsets: [begin, end] });

test("a header gives tensors in the order of their bytes, metadata and the exact length", async () => {
  const text = `{"__metadata__":{"format":"pt"},"b":${entry("BF16", [2, 2], 8, 16)},"a":${entry("F32", [2], 0, 8)}}`;
  const verdict = await readSafetensors(source(concat([safetensorsWithHeader(text), new Uint8Array(16)])));
  if (verdict.kind === "bad") throw new Error(verdict.problem);
  expect(verdict.header.tensors.map((tensor) => tensor.name)).toEqual(["a", "b"]);
  expect(verdict.header.metadata.get("format")).toBe("pt");
  expect(verdict.header.needed_bytes).toBe(8 + text.length + 16);
});

test("a scalar, an empty tensor, half-byte dtypes and padding with spaces are valid", async () => {
  const bytes = renderSafetensors({
    tensors: [
      { name: "scalar", dtype: "F32", shape: [] },
      { name: "empty", dtype: "F32", shape: [0, 7] },
      { name: "four", dtype: "F4", shape: [4, 2] },
    ],
    padding: 9,
  });
  expect(await problem(bytes)).toBe("ok");
});

test("__proto__ is a tensor name like any other", async () => {
  const verdict = await readSafetensors(
    source(safetensorsWithHeader(`{"__proto__":${entry("U8", [0], 0, 0)},"__metadata__":{"constructor":"x"}}`)),
  );
  if (verdict.kind === "bad") throw new Error(verdict.problem);
  expect(verdict.header.tensors[0]?.name).toBe("__proto__");
  expect(verdict.header.metadata.get("constructor")).toBe("x");
});

test("a git-lfs pointer is not taken for a header, and nothing large is read", async () => {
  const bytes = source(new TextEncoder().encode("version https://git-lfs.github.com/spec/v1\n"));
  const verdict = await readSafetensors(bytes);
  expect(verdict).toMatchObject({ kind: "bad", cutOff: false });
  expect(bytes.longest).toBe(8);
});

test("a header longer than 25,000,000 bytes is refused before it is read, also when the file is that long", async () => {
  const bytes = source(u64(SAFETENSORS.header_max_bytes + 1), 1e9);
  expect(await readSafetensors(bytes)).toMatchObject({ kind: "bad" });
  expect(bytes.longest).toBe(8);
});

test("a header longer than its file is cut off, with both numbers", async () => {
  expect(await readSafetensors(source(concat([u64(1000), new Uint8Array(10)])))).toEqual({
    kind: "bad",
    problem: "cut off: has 18 bytes, its header alone needs 1008",
    cutOff: true,
  });
});

const refused: readonly (readonly [what: string, header: string, words: RegExp])[] = [
  ["a repeated tensor", `{"a":${entry("U8", [0], 0, 0)},"a":${entry("U8", [0], 0, 0)}}`, /tensor a occurs twice/],
  ["a repeated key inside a tensor", `{"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, /a key occurs twice/],
  ["repeated metadata", `{"__metadata__":{},"__metadata__":{}}`, /__metadata__ twice/],
  ["metadata that are not texts", `{"__metadata__":{"a":1}}`, /a is not a text/],
  ["a list as metadata", `{"__metadata__":["a"]}`, /not an object/],
  ["an unknown dtype", `{"a":${entry("F1", [0], 0, 0)}}`, /unknown dtype F1/],
  ["offsets that do not fit the shape", `{"a":${entry("U8", [3], 0, 4)}}`, /hold 4 bytes, its shape needs 3/],
  ["a half byte", `{"a":${entry("F4", [3], 0, 1)}}`, /shape needs 1.5/],
  ["a gap", `{"a":${entry("U8", [1], 0, 1)},"b":${entry("U8", [1], 2, 3)}}`, /b begins at 2, the one before it ends at 1/],
  ["an overlap", `{"a":${entry("U8", [2], 0, 2)},"b":${entry("U8", [2], 1, 3)}}`, /b begins at 1/],
  ["a gap at the beginning", `{"a":${entry("U8", [1], 1, 2)}}`, /begins at 1/],
  ["an offset above 2^53", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[9007199254740992,9007199254740993]}}`, /tensor a/],
  ["a negative dimension", `{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}}`, /tensor a/],
  ["a dimension above 2^32", `{"a":{"dtype":"U8","shape":[4294967297],"data_offsets":[0,4294967297]}}`, /tensor a/],
  ["a product above 2^53", `{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, /too large/],
  ["more than 16 dimensions", `{"a":${entry("U8", new Array(17).fill(1), 0, 1)}}`, /tensor a/],
  ["a name above 512 bytes", `{"${"n".repeat(513)}":${entry("U8", [0], 0, 0)}}`, /too long/],
  ["text that is no JSON", `{"a":`, /not JSON/],
  ["a list", `[1]`, /does not begin with/],
  ["more text after the header", `{} {}`, /more text/],
  ["deep nesting", `{"a":${"[".repeat(100)}${"]".repeat(100)}}`, /nested deeper than 64/],
  ["NaN", `{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,0]}}`, /not JSON/],
];
for (const [what, header, words] of refused) {
  test(`${what} in a safetensors header is refused`, async () => {
    expect(await problem(safetensorsWithHeader(header))).toMatch(words);
  });
}

test("a header that is not UTF-8 is refused", async () => {
  expect(await problem(safetensorsWithHeader(new Uint8Array([0x7b, 0xff, 0x7d])))).toBe("the header is not UTF-8");
});

test("control characters of a tensor name do not reach the terminal", async () => {
  expect(await problem(safetensorsWithHeader(`{"\\u001b[31m":${entry("F1", [0], 0, 0)}}`))).toContain("\\u{1b}[31m");
});

const tensors = fc.uniqueArray(
  fc.record({
    name: fc.string({ unit: "binary", minLength: 1, maxLength: 12 }).filter((name) => name !== "__metadata__"),
    dtype: fc.constantFrom("BF16", "F32", "U8", "F8_E4M3"),
    shape: fc.array(fc.nat({ max: 5 }), { maxLength: 4 }),
  }),
  { selector: (tensor) => tensor.name, maxLength: 8 },
);
const files = fc.record({
  tensors,
  metadata: fc.dictionary(
    fc.string({ minLength: 1 }).filter((key) => key !== "__proto__"),
    fc.string(),
    { noNullPrototype: true },
  ),
  padding: fc.nat({ max: 9 }),
});

test("what was rendered is what is parsed", async () => {
  await fc.assert(
    fc.asyncProperty(files, async (file) => {
      const verdict = await readSafetensors(source(renderSafetensors(file)));
      if (verdict.kind === "bad") throw new Error(verdict.problem);
      const plain = (list: typeof file.tensors) => list.map(({ name, dtype, shape }) => ({ name, dtype, shape: [...shape] }));
      const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
      const parsed = verdict.header.tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape: [...shape] }));
      expect(parsed.sort(byName)).toEqual(plain(file.tensors).sort(byName) as never);
      expect(Object.fromEntries(verdict.header.metadata)).toEqual(file.metadata);
      expect(verdict.header.needed_bytes).toBe(renderSafetensorsHeader(file).length);
    }),
    { numRuns: 200 },
  );
});

test("any cut, any flipped byte and any hostile header ends in a verdict, and no read is longer than the limit", async () => {
  const whole = renderSafetensors({
    tensors: [
      { name: "model.embed.weight", dtype: "BF16", shape: [4, 8] },
      { name: "model.layers.0.mlp.weight", dtype: "F32", shape: [3] },
    ],
    metadata: { format: "pt" },
  });
  const check = async (bytes: Uint8Array, size?: number) => {
    const from = source(bytes, size);
    const verdict = await readSafetensors(from);
    expect(["ok", "bad"]).toContain(verdict.kind);
    expect(from.longest).toBeLessThanOrEqual(8 + SAFETENSORS.header_max_bytes);
    return verdict;
  };
  for (let length = 0; length < whole.length; length++) {
    const verdict = await check(whole.subarray(0, length));
    // A file that was cut is never taken for whole: either its header is, or it needs more bytes than there are.
    expect(verdict.kind === "bad" || verdict.header.needed_bytes > length).toBe(true);
  }
  const flip = fc.tuple(fc.nat({ max: whole.length - 1 }), fc.integer({ min: 1, max: 255 }));
  await fc.assert(
    fc.asyncProperty(flip, async ([at, bits]) => {
      await check(whole.map((byte, index) => (index === at ? byte ^ bits : byte)));
    }),
    { numRuns: 500 },
  );
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.boolean(), async (noise, framed) => {
      await check(framed ? safetensorsWithHeader(noise) : noise);
      await check(noise, 2 ** 50);
    }),
    { numRuns: 500 },
  );
  await fc.assert(
    fc.asyncProperty(fc.json({ maxDepth: 4 }), async (json) => {
      await check(safetensorsWithHeader(`{"a":${json}}`));
    }),
    { numRuns: 300 },
  );
});
