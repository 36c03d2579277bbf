/**
 * An Ollama store: manifests that name blobs by digest. Source: ollama/ollama manifest/, types/model/name.go, server/download.go.
 */
import * as v from "valibot";
import type { Weights } from "../../domain/inventory.ts";
import { printable } from "../../lib/printable.ts";
import { messageOf } from "../../lib/user-error.ts";
import { listFolder } from "./folder-listing.ts";
import type { GgufHeader } from "./gguf.ts";
import { ggufRecord, readGgufFile } from "./gguf-files.ts";
import { MAX_JSON_BYTES } from "./limits.ts";
import { JsonProblem, parseJson } from "./strict-json.ts";
import { lookAt, type Place, readProblem, readWhole, type Scan } from "./weight-file.ts";
import { refuse, watch, weightsRecord } from "./weights-record.ts";

const Digest = v.pipe(v.string(), v.regex(/^sha256[:-][0-9a-f]{64}$/));
const Layer = v.object({ mediaType: v.string(), digest: Digest, size: v.pipe(v.number(), v.safeInteger(), v.minValue(0)) });
const Manifest = v.object({ layers: v.array(Layer) });
type Layer = v.InferOutput<typeof Layer>;

/** All models of a store, `dir` being the folder with `manifests` and `blobs`. */
export async function inspectOllama(scan: Scan, dir: string): Promise<readonly Weights[]> {
  const [manifests, { files: blobs }] = await Promise.all([findManifests(scan, `${dir}/manifests`, []), listFolder(scan, `${dir}/blobs`)]);
  const wanted = new Set<string>();
  const weights = await Promise.all(manifests.map((parts) => inspectManifest(scan, dir, parts, blobs, wanted)));
  const unowned = new Set(
    blobs.flatMap((name) => partialOf(name) ?? []).filter((digest) => !wanted.has(digest) && !blobs.includes(digest)),
  );
  // A manifest is written last, so a first download belongs to no model yet.
  if (unowned.size > 0) scan.warn(`${printable(dir)}: ${unowned.size} downloads not finished, of models that are not listed yet`);
  return weights;
}

/** Paths below `manifests`: registry host, namespace, model, tag. */
async function findManifests(scan: Scan, dir: string, parts: readonly string[]): Promise<readonly (readonly string[])[]> {
  const { files, folders } = await listFolder(scan, dir);
  if (parts.length === 3) return files.filter((name) => !name.startsWith(".")).map((name) => [...parts, name]);
  return (await Promise.all(folders.map((name) => findManifests(scan, `${dir}/${name}`, [...parts, name])))).flat();
}

/** `model:tag` as Ollama prints it: its own registry, and there the namespace `library`, are left out. */
function shownName([host = "", namespace = "", model = "", tag = ""]: readonly string[]): string {
  const own = host === "registry.ollama.ai";
  const owner = own && namespace === "library" ? [] : [namespace];
  return printable([...(own ? [] : [host]), ...owner, `${model}:${tag}`].join("/"));
}

/** Digest of an unfinished blob, `sha256-<64 hex>-partial` or `…-partial-<n>`. */
function partialOf(name: string): string | undefined {
  return /^(sha256-[0-9a-f]{64})-partial(?:-[0-9]+)?$/.exec(name)?.[1];
}

async function inspectManifest(
  scan: Scan,
  dir: string,
  parts: readonly string[],
  blobs: readonly string[],
  wanted: Set<string>,
): Promise<Weights> {
  const path = `${dir}/manifests/${parts.join("/")}`;
  const name = shownName(parts);
  const broken = (problem: string) => weightsRecord({ name, layout: "ollama", path }, [], [refuse(problem)], false);
  const layers = await readManifest(scan, path);
  if (typeof layers === "string") return broken(layers);
  for (const layer of layers) wanted.add(blobName(layer));
  const of = (kind: string) => layers.filter((layer) => layer.mediaType === `application/vnd.ollama.image.${kind}`);
  const model = of("model")[0];
  const missing = await layerProblems(scan, dir, layers);
  const partial = layers.some((layer) => !blobs.includes(blobName(layer)) && blobs.some((blob) => partialOf(blob) === blobName(layer)));
  const place: Place = { layout: "ollama", unfinished: partial ? "certain" : "no" };
  if (model === undefined) {
    const why = of("tensor").length > 0 ? "made of single tensors, which only Ollama itself loads" : "its manifest names no model file";
    return broken(why);
  }
  const file = await readGgufFile(scan, `${dir}/blobs/${blobName(model)}`, blobName(model));
  const sideFiles = [...of("projector"), ...of("adapter")].map(blobName);
  const noted = [...file.noted, ...missing.map(refuse)];
  if (file.header !== undefined && sideFiles.length === 0 && holdsVision(file.header)) {
    noted.push(watch("made for Ollama: the vision part is inside the model file, which llama.cpp may refuse"));
  }
  return ggufRecord(name, [{ ...file, noted }], place, sideFiles);
}

function blobName(layer: Layer): string {
  return layer.digest.replace(":", "-");
}

/** The layers, or the words for what is wrong. */
async function readManifest(scan: Scan, path: string): Promise<readonly Layer[] | string> {
  const file = await lookAt(scan, path, "its manifest");
  if (file.kind === "bad") return file.problem;
  try {
    const text = await readWhole(scan, file, MAX_JSON_BYTES);
    if (text === undefined) return `its manifest is larger than ${MAX_JSON_BYTES} bytes`;
    const parsed = v.safeParse(Manifest, parseJson(text, { repeated: "last" }));
    return parsed.success ? parsed.output.layers : "its manifest does not list layers with digest and size";
  } catch (thrown) {
    return `its manifest: ${thrown instanceof JsonProblem ? `not JSON: ${messageOf(thrown)}` : readProblem(thrown)}`;
  }
}

/** Every blob is there in the length that the manifest gives; a wrong one is told with both numbers. */
async function layerProblems(scan: Scan, dir: string, layers: readonly Layer[]): Promise<readonly string[]> {
  const problems = await Promise.all(
    layers.map(async (layer) => {
      const kind = layer.mediaType.slice(layer.mediaType.lastIndexOf(".") + 1);
      if (layer.size === 0) return [];
      const name = blobName(layer);
      const file = await lookAt(scan, `${dir}/blobs/${name}`, name);
      if (file.kind === "bad") return [file.problem];
      if (file.size === layer.size) return [];
      return [`${name}: the ${printable(kind)} has ${file.size} bytes, the manifest says ${layer.size}`];
    }),
  );
  return problems.flat();
}

function holdsVision(header: GgufHeader): boolean {
  return [...header.metadata.keys()].some((key) => key.startsWith("clip.") || key.includes(".vision."));
}
