import { expect, test } from "bun:test";
import { utimesSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { discoverWeights } from "../../../src/discovery/weights/discover-weights.ts";
import { MAX_ENTRIES, MAX_WARNINGS } from "../../../src/discovery/weights/limits.ts";
import { RunnerError } from "../../../src/platform/runner.ts";
import { temporaryFolder } from "../../support/folders.ts";
import { createFsRunner } from "../../support/fs-runner.ts";
import {
  LLAMA_CONFIG,
  ollamaModel,
  oneTensor,
  scanOne,
  scanTree,
  smallGguf,
  smallModel,
  type Tree,
  writeTree,
} from "../../support/weight-trees.ts";

const HUB = "hub/models--acme--chat--mini";
const MAIN = "a".repeat(40);
const OLD = "b".repeat(40);

/** A hub repository: blobs by letter, each snapshot linking names to letters. */
function repository(blobs: Record<string, string | Uint8Array>, snapshots: Record<string, Record<string, string>>, dir = HUB): Tree {
  const tree: Record<string, string | Uint8Array | { link: string }> = { [`${dir}/refs/main`]: MAIN };
  for (const [letter, content] of Object.entries(blobs)) tree[`${dir}/blobs/${letter.repeat(64)}`] = content;
  for (const [commit, files] of Object.entries(snapshots)) {
    for (const [name, letter] of Object.entries(files)) {
      const up = "../".repeat(name.split("/").length + 1);
      tree[`${dir}/snapshots/${commit}/${name}`] = { link: `${up}blobs/${letter.repeat(64)}` };
    }
  }
  return tree;
}

const blobs = { c: JSON.stringify(LLAMA_CONFIG), e: "{}", f: oneTensor("w", [128, 64]) };
const files = { "config.json": "c", "tokenizer.json": "e", "model.safetensors": "f" };
const whole = repository(blobs, { [MAIN]: files });

function at(seconds: number, ...paths: readonly string[]) {
  return { prepare: (folder: string) => paths.forEach((path) => void utimesSync(join(folder, path), seconds, seconds)) };
}

test("a hub snapshot is a model under its repository id and commit", async () => {
  expect(await scanOne(whole, ["/hub"])).toMatchObject({
    name: "acme/chat--mini",
    layout: "hf-cache",
    path: `/${HUB}/snapshots/${MAIN}`,
    revision: MAIN,
    state: "complete",
    problems: [],
    bytes: blobs.f.length,
  });
});

test("a repository without organisation keeps its name, a repository may itself be the root, data sets are skipped", async () => {
  const tree = {
    ...repository(blobs, { [MAIN]: files }, "hub/models--gpt2"),
    ...repository(blobs, { [MAIN]: files }, "hub/datasets--acme--d"),
  };
  expect(await scanOne(tree, ["/hub"])).toMatchObject({ name: "gpt2" });
  expect(await scanOne(tree, ["/hub/models--gpt2"])).toMatchObject({ name: "gpt2", state: "complete" });
});

test("every commit is a record, that of refs/main first", async () => {
  const tree = repository(blobs, { [OLD]: files, [MAIN]: files });
  const { weights } = await scanTree(tree, ["/hub"], at(1, `${HUB}/snapshots/${MAIN}`));
  expect(weights.map((one) => one.revision)).toEqual([MAIN, OLD]);
  const withoutMain = await scanTree(omit(tree, "refs/main"), ["/hub"], at(1, `${HUB}/snapshots/${MAIN}`));
  expect(withoutMain.weights.map((one) => one.revision)).toEqual([OLD, MAIN]);
});

test("two names for one blob count once", async () => {
  const model = await scanOne(repository(blobs, { [MAIN]: { ...files, "model-copy.safetensors": "f" } }), ["/hub"]);
  expect(model).toMatchObject({ files: 2, bytes: blobs.f.length });
});

test("a link out of the roots is refused, unless that place is a root as well", async () => {
  const path = `${HUB}/snapshots/${MAIN}/model.safetensors`;
  const tree = { ...whole, [path]: { link: "../../../../elsewhere/w.safetensors" }, "elsewhere/w.safetensors": blobs.f };
  const refused = await scanOne(tree, ["/hub"]);
  expect(refused.state).toBe("incomplete");
  expect(refused.problems.join()).toMatch(/model.safetensors: a link out of the model folders, to \/elsewhere/);
  const { weights } = await scanTree(tree, ["/hub", "/elsewhere"]);
  expect(weights.find((one) => one.layout === "hf-cache")?.state).toBe("complete");
});

test("a snapshot link whose blob is gone makes the model incomplete and names the file", async () => {
  const { f: _gone, ...rest } = blobs;
  const model = await scanOne(repository(rest, { [MAIN]: files }), ["/hub"]);
  expect(model).toMatchObject({ state: "incomplete" });
  expect(model.problems.join()).toMatch(/model.safetensors: a link that leads nowhere/);
});

test("a blob that grows after the snapshot was touched is a download; an older leftover is not", async () => {
  const snapshot = `${HUB}/snapshots/${MAIN}`;
  const partial = (mtime_s: number, name = `${"9".repeat(64)}.incomplete`) => ({ [`${HUB}/blobs/${name}`]: { content: "x", mtime_s } });
  expect(await scanOne({ ...whole, ...partial(2000) }, ["/hub"], at(1000, snapshot))).toMatchObject({ state: "downloading" });
  const newer = partial(2000, `${"9".repeat(64)}.0123abcd.incomplete`);
  expect(await scanOne({ ...whole, ...newer }, ["/hub"], at(1000, snapshot))).toMatchObject({ state: "downloading" });
  expect(await scanOne({ ...whole, ...partial(500) }, ["/hub"], at(1000, snapshot))).toMatchObject({ state: "complete" });
  const finished = partial(2000, `${"f".repeat(64)}.incomplete`);
  expect(await scanOne({ ...whole, ...finished }, ["/hub"], at(1000, snapshot))).toMatchObject({ state: "complete" });
});

test("a lock explains what is missing and does not overrule what is whole", async () => {
  const hash = "9".repeat(64);
  const locked = {
    [`${HUB}/blobs/${hash}.incomplete`]: { content: "x", mtime_s: 500 },
    [`hub/.locks/models--acme--chat--mini/${hash}.lock`]: "",
  };
  const touched = at(1000, `${HUB}/snapshots/${MAIN}`);
  expect(await scanOne({ ...whole, ...locked }, ["/hub"], touched)).toMatchObject({ state: "complete" });
  const lacking = repository(blobs, { [MAIN]: { "config.json": "c", "model.safetensors": "f" } });
  expect(await scanOne({ ...lacking, ...locked }, ["/hub"], touched)).toMatchObject({ state: "downloading" });
});

test("a repository of which nothing is complete yet is downloading", async () => {
  const model = await scanOne({ [`${HUB}/blobs/${"9".repeat(64)}.incomplete`]: "x" }, ["/hub"]);
  expect(model).toMatchObject({ name: "acme/chat--mini", state: "downloading", bytes: 0, files: 0 });
});

test("the commit's own list of files tells what is missing or has another size, of what an engine needs", async () => {
  const list = (entries: Record<string, object>) => ({
    [`${HUB}/trees/${MAIN}.json`]: JSON.stringify({ format_version: 1, files: entries }),
  });
  const sizes = { "config.json": { size: blobs.c.length }, "model.safetensors": { size: 130, lfs_size: blobs.f.length } };
  const unneeded = { "README.md": { size: 5 }, "original/consolidated.00.pth": { size: 9 }, "image.png": { size: 1 } };
  expect(await scanOne({ ...whole, ...list({ ...sizes, ...unneeded }) }, ["/hub"])).toMatchObject({ state: "complete" });
  const short = await scanOne({ ...whole, ...list({ ...sizes, "model.safetensors": { size: 130, lfs_size: 7 } }) }, ["/hub"]);
  expect(short.problems.join()).toMatch(/model.safetensors: has \d+ bytes, the commit says 7/);
  const missing = await scanOne({ ...whole, ...list({ ...sizes, "model-b.safetensors": { size: 3 } }) }, ["/hub"]);
  expect(missing).toMatchObject({ state: "incomplete" });
  expect(missing.problems.join()).toMatch(/model-b.safetensors: missing, although the commit holds it/);
  expect(await scanOne({ ...whole, [`${HUB}/trees/${MAIN}.json`]: "{" }, ["/hub"])).toMatchObject({ state: "complete" });
});

test("GGUF files in a snapshot, also in its sub-folders, are models of the repository", async () => {
  const { weights } = await scanTree(repository({ d: smallGguf() }, { [MAIN]: { "mini-Q4_K_M.gguf": "d", "Q8_0/mini-Q8_0.gguf": "d" } }), [
    "/hub",
  ]);
  expect(weights.map((one) => [one.name, one.layout, one.format, one.revision])).toEqual([
    ["acme/chat--mini/mini-Q4_K_M", "hf-cache", "gguf", MAIN],
    ["acme/chat--mini/mini-Q8_0", "hf-cache", "gguf", MAIN],
  ]);
});

test("a snapshot with a config alone is no model", async () => {
  expect((await scanTree(repository(blobs, { [MAIN]: { "config.json": "c" } }), ["/hub"])).weights).toEqual([]);
});

const LIBRARY = "registry.ollama.ai/library/mini/latest";

test("an Ollama model is named model:tag and points at its blob", async () => {
  expect(await scanOne(ollamaModel("ollama", LIBRARY, smallGguf()), ["/ollama"])).toMatchObject({
    name: "mini:latest",
    layout: "ollama",
    format: "gguf",
    path: `/ollama/blobs/sha256-${"a".repeat(64)}`,
    architecture: "llama",
    files: 1,
    state: "complete",
  });
});

test("an Ollama model of another namespace or registry keeps both in its name", async () => {
  const gguf = smallGguf();
  const { weights } = await scanTree(
    { ...ollamaModel("ollama", "registry.ollama.ai/me/mini/7b", gguf), ...ollamaModel("ollama", "hf.co/acme/mini/Q4", gguf) },
    ["/ollama"],
  );
  expect(weights.map((one) => one.name)).toEqual(["hf.co/acme/mini:Q4", "me/mini:7b"]);
});

const ollama: readonly (readonly [what: string, change: (tree: Tree) => Tree, state: string, words: RegExp])[] = [
  [
    "a blob of another length",
    (tree) => ({ ...tree, [`ollama/blobs/sha256-${"a".repeat(64)}`]: smallGguf().slice(0, -1) }),
    "incomplete",
    /the manifest says/,
  ],
  [
    "a missing blob",
    (tree) => ({ ...omit(tree, "blobs/sha256-a"), "ollama/blobs/": "folder/" as const }),
    "incomplete",
    /sha256-a+: missing/,
  ],
  [
    "a blob that is still coming",
    (tree) => ({ ...omit(tree, "blobs/sha256-a"), [`ollama/blobs/sha256-${"a".repeat(64)}-partial-3`]: "x" }),
    "downloading",
    /missing/,
  ],
  ["a manifest that is noise", (tree) => ({ ...tree, [`ollama/manifests/${LIBRARY}`]: "noise" }), "incomplete", /its manifest: not JSON/],
  [
    "a digest that is a path",
    (tree) => ({ ...tree, [`ollama/manifests/${LIBRARY}`]: String(tree[`ollama/manifests/${LIBRARY}`]).replace(/sha256:a+/, "../../x") }),
    "incomplete",
    /does not list layers/,
  ],
  [
    "single tensors",
    (tree) => ({
      ...tree,
      [`ollama/manifests/${LIBRARY}`]: String(tree[`ollama/manifests/${LIBRARY}`]).replace("image.model", "image.tensor"),
    }),
    "incomplete",
    /single tensors/,
  ],
];
function omit(tree: Tree, part: string): Tree {
  return Object.fromEntries(Object.entries(tree).filter(([path]) => !path.includes(part)));
}
for (const [what, change, state, words] of ollama) {
  test(`${what} in an Ollama store makes that model ${state}`, async () => {
    const model = await scanOne(change(ollamaModel("ollama", LIBRARY, smallGguf())), ["/ollama"]);
    expect(model.state).toBe(state as typeof model.state);
    expect(model.problems.join()).toMatch(words);
  });
}

test("an Ollama download that no model names yet is a warning", async () => {
  const tree = { ...ollamaModel("ollama", LIBRARY, smallGguf()), [`ollama/blobs/sha256-${"c".repeat(64)}-partial`]: "x" };
  expect((await scanTree(tree, ["/ollama"])).warnings).toEqual(["/ollama: 1 downloads not finished, of models that are not listed yet"]);
});

test("a projector of an Ollama model is a side file; vision inside the model is worth watching", async () => {
  const extra = [{ kind: "projector", letter: "b", content: "proj" }];
  expect((await scanOne(ollamaModel("ollama", LIBRARY, smallGguf(), extra), ["/ollama"])).side_files).toEqual([`sha256-${"b".repeat(64)}`]);
  const inline = await scanOne(ollamaModel("ollama", LIBRARY, smallGguf([["llama.vision.block_count", "u32", 2]])), ["/ollama"]);
  expect(inline).toMatchObject({ state: "complete" });
  expect(inline.problems.join()).toMatch(/made for Ollama/);
});

test("a root that is missing is nothing", async () => {
  expect(await scanTree({}, ["/nowhere", "/models"])).toEqual({ weights: [], warnings: [] });
});

test("a root that cannot be read is one warning, and the others are scanned", async () => {
  const { weights, warnings } = await scanTree({ ...smallModel("models/a"), ...smallModel("closed/b") }, ["/closed", "/models"], {
    unreadable: ["/closed"],
  });
  expect(weights.map((one) => one.name)).toEqual(["a"]);
  expect(warnings).toEqual(["/closed: cannot be read: /closed: permission denied"]);
});

test("a file that cannot be read is one warning and a problem of its model, and the others are whole", async () => {
  const { weights, warnings } = await scanTree({ ...smallModel("models/a"), ...smallModel("models/b") }, undefined, {
    unreadable: ["/models/a/model.safetensors"],
  });
  expect(weights.map((one) => one.state)).toEqual(["incomplete", "complete"]);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain("/models/a/model.safetensors");
});

test("a broken model hides no other", async () => {
  const { weights } = await scanTree({
    ...smallModel("models/a"),
    "models/b/config.json": "\u0000",
    "models/b/model.safetensors": "noise, noise, noise",
    "models/c.gguf": "GGUFnoise",
    "models/d.gguf": smallGguf(),
  });
  expect(weights.map((one) => [one.name, one.state])).toEqual([
    ["a", "complete"],
    ["b", "incomplete"],
    ["c", "incomplete"],
    ["d", "complete"],
  ]);
});

test("roots that overlap, repeat or link to one another give every model once", async () => {
  const tree = { ...smallModel("models/in/a"), "models/in/b.gguf": smallGguf(), alias: { link: "models" }, ...whole };
  const { weights } = await scanTree(tree, ["/models/in", "/models", "/models/", "/alias", "/hub", `/${HUB}`]);
  expect(weights.map((one) => one.path)).toEqual(["/models/in/a", `/${HUB}/snapshots/${MAIN}`, "/models/in/b.gguf"]);
});

test("links in a circle end, and a model behind a link keeps its own name", async () => {
  const { weights, warnings } = await scanTree({
    ...smallModel("models/zeta"),
    "models/current": { link: "zeta" },
    "models/deep/round": { link: "../../models" },
    "models/self": { link: "self" },
  });
  expect(weights.map((one) => one.name)).toEqual(["zeta"]);
  expect(warnings).toEqual([]);
});

test("a folder linked from outside the roots is named in a warning and not followed", async () => {
  const { weights, warnings } = await scanTree({ ...smallModel("elsewhere/a"), "models/out": { link: "../elsewhere" } });
  expect(weights).toEqual([]);
  expect(warnings).toEqual(["/models/out: a link out of the model folders, to /elsewhere: not followed"]);
});

test("models are found six folders deep and no deeper", async () => {
  const { weights } = await scanTree({ ...smallModel("models/1/2/3/4/5/six"), ...smallModel("models/1/2/3/4/5/6/seven") });
  expect(weights.map((one) => one.name)).toEqual(["six"]);
});

test("a root with too many entries ends in a warning, and what was found counts", async () => {
  const runner = createFsRunner("/");
  const crowd = Array.from({ length: MAX_ENTRIES + 5 }, (_, index) => `n${index}`);
  const crowded = {
    ...runner,
    realPath: async (path: string) => path,
    readLink: async () => undefined,
    listDir: async (path: string) => (path === "/models" ? ["a.gguf", ...crowd] : []),
    stat: async () => ({ kind: "file" as const, sizeBytes: 2000, mtimeMs: 0 }),
    readFile: async () => new Uint8Array(),
  };
  const { weights, warnings } = await discoverWeights(crowded, ["/models"]);
  expect(weights.map((one) => one.name)).toEqual(["a"]);
  expect(warnings).toEqual([`/models: more than ${MAX_ENTRIES} entries: the rest was not looked at`]);
});

test("any bytes under any of the names that matter end in records and warnings, and no read is longer than the limits", async () => {
  const names = [
    ...["config.json", "params.json", "model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"],
    ...["consolidated.safetensors", "tokenizer.json", "a.gguf", "a-00001-of-00003.gguf", "hf_quant_config.json", "pytorch_model.bin"],
    ...["adapter_config.json", "modules.json", ".cache/huggingface/download/x.incomplete"],
    ...[`blobs/sha256-${"a".repeat(64)}`, "manifests/r/n/m/t", "models--a--b/refs/main", `models--a--b/snapshots/${MAIN}/config.json`],
    ...[`models--a--b/snapshots/${MAIN}/model.safetensors`, `models--a--b/trees/${MAIN}.json`],
  ];
  const content = fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    fc.json(),
    fc.constantFrom<string | Uint8Array>(JSON.stringify(LLAMA_CONFIG), blobs.f, smallGguf(), '{"weight_map":{"w":"model.safetensors"}}'),
    fc.nat({ max: 900 }).map((length) => smallGguf().slice(0, length)),
    fc.nat({ max: 900 }).map((length) => blobs.f.slice(0, length)),
  );
  let longest = 0;
  const onRead = (_path: string, maxBytes: number) => {
    longest = Math.max(longest, maxBytes);
  };
  await fc.assert(
    fc.asyncProperty(fc.dictionary(fc.constantFrom(...names), content, { noNullPrototype: true }), async (tree) => {
      const inModels = Object.fromEntries(Object.entries(tree).map(([name, bytes]) => [`models/m/${name}`, bytes]));
      for (const model of (await scanTree(inModels, undefined, { onRead })).weights) {
        expect(model.state === "complete" || model.problems.length > 0).toBe(true);
      }
    }),
    { numRuns: 200 },
  );
  expect(longest).toBeLessThanOrEqual(25_000_008);
});

test("no more than eight calls are under way at once", async () => {
  let now = 0;
  let most = 0;
  const slow = async <T>(value: T): Promise<T> => {
    most = Math.max(most, ++now);
    await Promise.resolve();
    now--;
    return value;
  };
  const runner = {
    ...createFsRunner("/"),
    realPath: (path: string) => slow(path),
    readLink: () => slow(undefined),
    listDir: (path: string) => slow(path === "/models" ? Array.from({ length: 200 }, (_, index) => `${index}.gguf`) : []),
    stat: () => slow({ kind: "file" as const, sizeBytes: 2000, mtimeMs: 0 }),
    readFile: () => slow(new Uint8Array()),
  };
  expect((await discoverWeights(runner, ["/models"])).weights).toHaveLength(200);
  expect(most).toBe(8);
});

test("a disk that stops answering is asked a few times and then given up, and other roots are scanned", async () => {
  let asked = 0;
  using folder = temporaryFolder();
  writeTree(folder.path, { ...smallModel("good/a"), ...Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`bad/${i}.gguf`, "x"])) });
  const runner = createFsRunner(folder.path);
  const hangs = {
    ...runner,
    readLink: (path: string) => {
      if (!path.startsWith("/bad/")) return runner.readLink(path);
      asked++;
      return Promise.reject(new RunnerError("timeout", `${path}: no answer`));
    },
  };
  const { weights, warnings } = await discoverWeights(hangs, ["/bad", "/good"]);
  expect(weights.filter((one) => one.state === "complete").map((one) => one.name)).toEqual(["a"]);
  expect(weights.filter((one) => one.name !== "a").every((one) => one.state === "incomplete")).toBe(true);
  expect(asked).toBeLessThanOrEqual(16);
  expect(warnings.length).toBeLessThanOrEqual(MAX_WARNINGS + 1);
});

test("a second GGUF file being fetched says nothing about the first", async () => {
  const tree = repository({ d: smallGguf() }, { [MAIN]: { "mini-Q4_K_M.gguf": "d" } });
  const partial = { [`${HUB}/blobs/${"9".repeat(64)}.incomplete`]: { content: "x", mtime_s: 2000 } };
  expect(await scanOne({ ...tree, ...partial }, ["/hub"], at(1000, `${HUB}/snapshots/${MAIN}`))).toMatchObject({ state: "complete" });
});

test("a file that grows while it is read is downloading", async () => {
  const cut = smallModel("models/a");
  const bytes = cut["models/a/model.safetensors"] ?? "";
  let grown = 0;
  const model = await scanOne({ ...cut, "models/a/model.safetensors": bytes.slice(0, 2000) }, undefined, {
    prepare: (folder) => {
      grow = () => utimesSync(join(folder, "models/a/model.safetensors"), ++grown, grown);
    },
    onRead: (path) => {
      if (path.endsWith("model.safetensors")) grow();
    },
  });
  expect(model).toMatchObject({ state: "downloading" });
});
let grow = () => {};
