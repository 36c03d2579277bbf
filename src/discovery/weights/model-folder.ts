/**
 * A folder with `config.json` and weights beside it: a clone, a `--local-dir` download, a training output, a hub snapshot; or
 * Mistral's own layout with `params.json` (reference/weights.md, sections 1.2 and 2). Only the top level counts.
 */
import type { Weights } from "../../domain/inventory.ts";
import { listed, printable } from "../../lib/printable.ts";
import { messageOf } from "../../lib/user-error.ts";
import { numberingProblems, parseShardIndex, type ShardIndex } from "./complete.ts";
import { MAX_CONFIG_BYTES, MAX_INDEX_BYTES, MAX_JSON_BYTES, SAFETENSORS } from "./limits.ts";
import { ADAPTER_CONFIG, configFacts, type ModelFacts, modelOptFacts, PIPELINE_CONFIG, paramsFacts } from "./model-config.ts";
import { readShards, type Shard } from "./safetensors-shards.ts";
import { JsonProblem, parseJson } from "./strict-json.ts";
import { modelTotals } from "./tensor-totals.ts";
import { lookAt, type Place, readProblem, readWhole, type Scan } from "./weight-file.ts";
import { type Noted, refuse, watch, weightsRecord } from "./weights-record.ts";

/** The model that a folder is, `undefined` when it is none. `names` are its files, links included. */
export async function inspectModelFolder(scan: Scan, dir: string, names: readonly string[], place: Place): Promise<Weights | undefined> {
  const chosen = chooseFiles(names, place);
  if (chosen === undefined) return undefined;
  const config = await readConfig(scan, dir, names, chosen);
  const index = chosen.index === undefined ? undefined : await readIndex(scan, dir, chosen.index);
  const plan = planShards(chosen, names, index);
  const shards = await readShards(scan, dir, plan.files, chosen.format === "pickle" ? undefined : config.facts, plan.placed);
  const noted = [
    ...shards.flatMap((shard) => shard.noted),
    ...plan.noted,
    ...totalProblem(index, shards),
    ...(await listedProblems(scan, dir, plan.files, names, place)),
    ...config.noted,
    ...(await tokenizerProblem(scan, dir, names, config.facts)),
    ...(chosen.format === "pickle" ? [pickleProblem(plan.files)] : []),
  ];
  const { packed_bits: _bits, fp4: _fp4, ...facts } = config.facts;
  return weightsRecord(
    {
      name: printable(place.name ?? dir.slice(dir.lastIndexOf("/") + 1)),
      layout: place.layout,
      format: chosen.format,
      path: dir,
      revision: place.revision,
      ...facts,
      ...(chosen.format === "pickle" ? {} : modelTotals(shards.flatMap((shard) => shard.totals ?? []))),
      side_files: chosen.sideFiles.length === 0 ? undefined : chosen.sideFiles.map(printable),
    },
    shards.flatMap((shard) => shard.file ?? []),
    noted,
    place.unfinished === "certain" ||
      shards.some((shard) => shard.growing) ||
      (place.unfinished === "maybe" && noted.some((note) => note.kind === "refuse")),
  );
}

interface Chosen {
  /** Absent while no weight file has come yet. */
  readonly format?: "safetensors" | "pickle" | "mistral";
  readonly weights: readonly string[];
  readonly index: string | undefined;
  readonly sideFiles: readonly string[];
}

const PICKLE = /\.(bin|pt|pth)$/;
/** What training leaves beside the weights. */
const NO_WEIGHTS = /^(training_args|optimizer|scheduler|rng_state|scaler|random_states)/;
const CONSOLIDATED = /^consolidated.*\.safetensors$/;

/** Which files are the model; `undefined` when the folder is an adapter, a pipeline, or none at all. */
function chooseFiles(names: readonly string[], place: Place): Chosen | undefined {
  if (names.includes(PIPELINE_CONFIG)) return undefined;
  const sideFiles = names.filter((name) => /^adapter_model.*\.(safetensors|bin)$/.test(name));
  const all = names.filter((name) => name.endsWith(".safetensors") && !sideFiles.includes(name));
  const index = indexName(names);
  if (!names.includes("config.json")) {
    const consolidated = all.filter((name) => CONSOLIDATED.test(name));
    if (names.includes("params.json") && consolidated.length > 0) {
      return { format: "mistral", weights: consolidated, index, sideFiles };
    }
    if (names.includes(ADAPTER_CONFIG)) return undefined;
    // A folder of loose tensor files is shown with what it lacks; loose pickles could be anything.
    return all.length === 0 ? undefined : { format: "safetensors", weights: all, index, sideFiles };
  }
  // The same weights twice, in Mistral's layout and the usual one.
  const twice = all.some((name) => /^model.*\.safetensors$/.test(name)) || index === "model.safetensors.index.json";
  const weights = twice ? all.filter((name) => !CONSOLIDATED.test(name)) : all;
  if (weights.length > 0 || index !== undefined) return { format: "safetensors", weights, index, sideFiles };
  const pickles = names.filter((name) => PICKLE.test(name) && !NO_WEIGHTS.test(name) && !sideFiles.includes(name));
  if (pickles.length > 0) return { format: "pickle", weights: pickles, index: undefined, sideFiles };
  if (names.includes(ADAPTER_CONFIG) || names.some((name) => name.toLowerCase().endsWith(".gguf"))) return undefined;
  return place.unfinished === "no" ? undefined : { weights: [], index: undefined, sideFiles };
}

function indexName(names: readonly string[]): string | undefined {
  const usual = "model.safetensors.index.json";
  return names.includes(usual) ? usual : names.find((name) => name.endsWith(".safetensors.index.json"));
}

interface ReadConfig {
  readonly facts: ModelFacts;
  readonly noted: readonly Noted[];
}

async function readConfig(scan: Scan, dir: string, names: readonly string[], chosen: Chosen): Promise<ReadConfig> {
  const name = chosen.format === "mistral" ? "params.json" : "config.json";
  const read = await readJson(scan, dir, name, MAX_CONFIG_BYTES);
  if ("problem" in read) return { facts: {}, noted: [refuse(read.problem)] };
  const facts = chosen.format === "mistral" ? paramsFacts(read.value) : configFacts(read.value);
  if (facts === undefined) return { facts: {}, noted: [refuse(`${name}: not a JSON object`)] };
  return { facts: await withNeighbours(scan, dir, names, facts), noted: [] };
}

/** What files beside the config add to it. */
async function withNeighbours(scan: Scan, dir: string, names: readonly string[], facts: ModelFacts): Promise<ModelFacts> {
  let all = facts;
  // Made for embeddings with sentence-transformers, whatever the class was trained for.
  if (names.includes("modules.json") && facts.purpose !== "rerank") all = { ...all, purpose: "embedding" };
  if (facts.quantization === undefined || facts.quantization === "modelopt") {
    const name = "hf_quant_config.json";
    const read = names.includes(name) ? await readJson(scan, dir, name, MAX_JSON_BYTES) : undefined;
    if (read !== undefined && "value" in read) all = { ...all, ...modelOptFacts(read.value) };
  }
  return all;
}

async function readJson(scan: Scan, dir: string, name: string, maxBytes: number): Promise<{ value: unknown } | { problem: string }> {
  const file = await lookAt(scan, `${dir}/${name}`, name);
  if (file.kind === "bad") return { problem: file.problem };
  try {
    const text = await readWhole(scan, file, maxBytes);
    if (text === undefined) return { problem: `${name}: larger than ${maxBytes} bytes` };
    return { value: parseJson(text, { repeated: "last", nonFinite: true }) };
  } catch (thrown) {
    return { problem: `${name}: ${thrown instanceof JsonProblem ? `not JSON: ${messageOf(thrown)}` : readProblem(thrown)}` };
  }
}

/** The index; the words when it is wrong; `undefined` when it is larger than we read. */
async function readIndex(scan: Scan, dir: string, name: string): Promise<ShardIndex | Noted | undefined> {
  const file = await lookAt(scan, `${dir}/${name}`, name);
  if (file.kind === "bad") return refuse(file.problem);
  try {
    const text = await readWhole(scan, file, MAX_INDEX_BYTES);
    if (text === undefined) return undefined;
    const parsed = parseShardIndex(text);
    return typeof parsed === "string" ? refuse(`${printable(name)}: ${parsed}`) : parsed;
  } catch (thrown) {
    return refuse(`${printable(name)}: ${readProblem(thrown)}`);
  }
}

/** Which files to open: those of the index where there is one, else all; and what is missing or too much by their names. */
function planShards(chosen: Chosen, names: readonly string[], index: ShardIndex | Noted | undefined) {
  const noted: Noted[] = [];
  let files = chosen.weights;
  let placed: ReadonlyMap<string, readonly string[]> | undefined;
  if (index !== undefined && "kind" in index) noted.push(index);
  else if (index !== undefined) {
    const missing = index.files.filter((file) => !names.includes(file));
    if (missing.length > 0) noted.push(refuse(`${missing.length} of ${index.files.length} shards missing: ${listed(missing)}`));
    const extra = chosen.weights.filter((file) => !index.files.includes(file));
    if (extra.length > 0) noted.push(watch(`not named by the index, left out: ${listed(extra)}`));
    noted.push(...numberingProblems(index.files).map(refuse));
    files = index.files.filter((file) => names.includes(file));
    placed = Map.groupBy(index.placed.keys(), (tensor) => index.placed.get(tensor) ?? "");
  } else noted.push(...numberingProblems(files).map(refuse));
  if (files.length === 0 && noted.length === 0) noted.push(refuse("no weight files"));
  if (files.length > SAFETENSORS.shards) noted.push(refuse(`${files.length} weight files are more than ${SAFETENSORS.shards}`));
  return { files: files.slice(0, SAFETENSORS.shards), placed, noted };
}

/** The total of an index is wrong in real repositories, so it is only something to watch; 1 % is rounding. */
function totalProblem(index: ShardIndex | Noted | undefined, shards: readonly Shard[]): readonly Noted[] {
  if (index === undefined || "kind" in index || index.total_bytes === undefined) return [];
  if (shards.length < index.files.length || shards.some((shard) => shard.data_bytes === undefined)) return [];
  const found = shards.reduce((sum, shard) => sum + (shard.data_bytes ?? 0), 0);
  if (Math.abs(found - index.total_bytes) <= found / 100) return [];
  return [watch(`the index promises ${index.total_bytes} bytes of tensors, the shards hold ${found}`)];
}

/** Files that an engine reads besides the weights. */
const NEEDED =
  /^(config\.json|generation_config\.json|model\.safetensors\.index\.json|tokenizer.*\.(json|model)|tokenizer\.model|tekken\.json)$/;

/** The commit's own list of files against what is there. Downloads may leave out files on purpose, so only needed ones count. */
async function listedProblems(scan: Scan, dir: string, weights: readonly string[], names: readonly string[], place: Place) {
  const noted: Noted[] = [];
  if (place.expected === undefined) return noted;
  const usual = [...place.expected.keys()].some((name) => /^model.*\.safetensors$/.test(name));
  for (const [name, size] of place.expected) {
    const isWeight = weights.includes(name) || (usual && /^model[^/]*\.safetensors$/.test(name));
    if (!isWeight && !NEEDED.test(name)) continue;
    if (!names.includes(name)) {
      noted.push(refuse(`${printable(name)}: missing, although the commit holds it`));
      continue;
    }
    const file = await lookAt(scan, `${dir}/${name}`, name);
    if (file.kind === "bad") noted.push(refuse(file.problem));
    else if (file.size !== size) noted.push(refuse(`${printable(name)}: has ${file.size} bytes, the commit says ${size}`));
  }
  return noted;
}

const WHOLE_TOKENIZER = /^(tokenizer\.json|tokenizer\.model(\..+)?|tekken\.json|.+\.tiktoken)$/;
const VOCABULARY = /^(vocab\.(txt|json)|.+\.model)$/;

/** A text model needs one of the usual sets of tokenizer files, and they must hold something. */
async function tokenizerProblem(scan: Scan, dir: string, names: readonly string[], facts: ModelFacts): Promise<readonly Noted[]> {
  if (facts.purpose === undefined || facts.purpose === "audio") return [];
  const problems: Noted[] = [];
  const good = async (name: string) => {
    const file = await lookAt(scan, `${dir}/${name}`, name);
    if (file.kind === "bad") problems.push(refuse(file.problem));
    return file.kind === "file";
  };
  const anyGood = async (wanted: readonly string[]) => (await Promise.all(wanted.map(good))).some((found) => found);
  if (await anyGood(names.filter((name) => WHOLE_TOKENIZER.test(name)))) return [];
  const vocabulary = names.filter((name) => VOCABULARY.test(name) && !WHOLE_TOKENIZER.test(name));
  const sets = [
    ["tokenizer_config.json", vocabulary],
    ["merges.txt", vocabulary.filter((name) => name === "vocab.json")],
  ] as const;
  for (const [first, rest] of sets) {
    if (names.includes(first) && rest.length > 0 && (await good(first)) && (await anyGood(rest))) return [];
  }
  return problems.length > 0 ? problems : [refuse("no tokenizer: none of tokenizer.json, tokenizer.model, tekken.json, vocabulary files")];
}

function pickleProblem(files: readonly string[]): Noted {
  return refuse(`only pickle files (${listed(files)}): loading them can run code from the file; convert the model to safetensors`);
}
