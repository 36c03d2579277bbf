/**
 * Finds the models under the configured folders. Every folder is asked what it is: a repository of a hub cache, an Ollama store, a
 * model folder, or a place to look further (reference/weights.md, section 1).
 */
import type { Weights } from "../../domain/inventory.ts";
import { printable } from "../../lib/printable.ts";
import type { Runner } from "../../platform/runner.ts";
import { type Listing, listFolder } from "./folder-listing.ts";
import { inspectGgufs } from "./gguf-files.ts";
import { readRepository, repositoryId } from "./hf-cache.ts";
import { CALL_TIME_MS, MAX_DEPTH, MAX_ENTRIES, MAX_WARNINGS } from "./limits.ts";
import { inspectModelFolder } from "./model-folder.ts";
import { inspectOllama } from "./ollama.ts";
import { patientRunner } from "./patient-runner.ts";
import { mtimeBelow, type Place, readProblem, type Scan } from "./weight-file.ts";

export interface FoundWeights {
  /** By name; of one repository the commit of `refs/main` first. */
  readonly weights: readonly Weights[];
  /** Folders and files that could not be looked at, each named. */
  readonly warnings: readonly string[];
}

/**
 * All models under `roots`, also broken ones: those say in `problems` what is wrong. A root that does not exist is nothing; what
 * cannot be read is one warning and the rest goes on. Links are followed inside the roots only, and every folder is seen once.
 */
export async function discoverWeights(runner: Runner, roots: readonly string[]): Promise<FoundWeights> {
  const warnings = new Set<string>();
  const warn = (text: string) => void warnings.add(text);
  const real = await resolveRoots(runner, roots, warn);
  const walk = new Walk(runner, [...real.keys()], warn);
  // The outer one of two nested roots first: seen from there a model has the same surroundings whatever the order of the roots.
  const inOrder = [...real].sort(([a], [b]) => a.length - b.length || compare(a, b));
  for (const [realPath, root] of inOrder) await walk.root(root, realPath);
  const weights = walk.found.toSorted((a, b) => compare(a.name, b.name) || compare(placeOf(a), placeOf(b)));
  return { weights, warnings: shortened([...warnings].sort()) };
}

function shortened(warnings: readonly string[]): readonly string[] {
  const more = warnings.length - MAX_WARNINGS;
  return more > 0 ? [...warnings.slice(0, MAX_WARNINGS), `and ${more} more warnings about model folders`] : warnings;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Commits of one repository compare as equal, so they stay in the order in which they were found. */
function placeOf(weights: Weights): string {
  return weights.revision === undefined ? weights.path : weights.path.slice(0, weights.path.indexOf("/snapshots/"));
}

/** Real path → the root as it was given, which is how its models are named. */
async function resolveRoots(runner: Runner, roots: readonly string[], warn: (text: string) => void): Promise<ReadonlyMap<string, string>> {
  const real = new Map<string, string>();
  for (const root of roots) {
    try {
      const path = await runner.realPath(root, { timeoutMs: CALL_TIME_MS });
      if (path !== undefined && !real.has(path)) real.set(path, root.length > 1 ? root.replace(/\/+$/, "") : root);
    } catch (thrown) {
      warn(`${printable(root)}: cannot be read: ${readProblem(thrown)}`);
    }
  }
  return real;
}

interface Folder {
  readonly dir: string;
  /** The same with all links resolved: what tells two folders apart. */
  readonly real: string;
  readonly depth: number;
  readonly place: Place;
  /** Below a model folder only GGUF files count: `original/` or `onnx/` hold the same model again. */
  readonly ggufOnly: boolean;
}

/** What one folder is and leads to, in the order of its names. */
interface Visit {
  readonly found: readonly Weights[];
  readonly below: readonly Folder[];
  readonly linked: readonly Folder[];
}

const NOTHING: Visit = { found: [], below: [], linked: [] };
const PLAIN: Place = { layout: "folder", unfinished: "no" };

class Walk {
  readonly found: Weights[] = [];
  readonly #runner: Runner;
  readonly #allowed: readonly string[];
  readonly #warn: (text: string) => void;
  readonly #visited = new Set<string>();
  readonly #ggufsSeen = new Set<string>();

  constructor(runner: Runner, allowed: readonly string[], warn: (text: string) => void) {
    this.#runner = runner;
    this.#allowed = allowed;
    this.#warn = warn;
  }

  /** Walks level by level, so that a model is found at its shortest path; folders behind links last, so that it keeps its own name. */
  async root(root: string, real: string): Promise<void> {
    const scan = this.#scan(root);
    if (await this.#isGguf(scan, root, real)) return;
    let linked: readonly Folder[] = [];
    let level: readonly Folder[] = [{ dir: root, real, depth: 0, place: PLAIN, ggufOnly: false }];
    while (level.length > 0) {
      const visits = await Promise.all(level.map((folder) => this.#visit(scan, folder)));
      this.found.push(...visits.flatMap((visit) => visit.found));
      linked = [...linked, ...visits.flatMap((visit) => visit.linked)];
      level = visits.flatMap((visit) => visit.below);
      if (level.length === 0) {
        level = linked;
        linked = [];
      }
    }
  }

  #scan(root: string): Scan {
    let left = MAX_ENTRIES;
    return {
      runner: patientRunner(this.#runner),
      allowed: this.#allowed,
      warn: this.#warn,
      takeEntries: (count) => {
        const granted = Math.min(count, left);
        left -= granted;
        if (granted < count) this.#warn(`${printable(root)}: more than ${MAX_ENTRIES} entries: the rest was not looked at`);
        return granted;
      },
    };
  }

  /** A root may also name one file. */
  async #isGguf(scan: Scan, root: string, real: string): Promise<boolean> {
    if (!/\.gguf$/i.test(root)) return false;
    try {
      if ((await scan.runner.stat(root))?.kind !== "file") return false;
    } catch (thrown) {
      this.#warn(`${printable(root)}: cannot be read: ${readProblem(thrown)}`);
      return true;
    }
    const slash = root.lastIndexOf("/");
    if (!this.#ggufsSeen.has(real.slice(0, real.lastIndexOf("/")))) {
      this.found.push(...(await inspectGgufs(scan, root.slice(0, slash), [root.slice(slash + 1)], { layout: "gguf", unfinished: "no" })));
    }
    return true;
  }

  async #visit(scan: Scan, folder: Folder): Promise<Visit> {
    const { dir, place } = folder;
    const visit = `${folder.ggufOnly ? "ggufs" : "all"} ${folder.real}`;
    if (this.#visited.has(visit)) return NOTHING;
    this.#visited.add(visit);
    const listing = await listFolder(scan, dir);
    const id = place.layout === "hf-cache" ? undefined : repositoryId(dir.slice(dir.lastIndexOf("/") + 1));
    if (id !== undefined && listing.folders.some((name) => name === "snapshots" || name === "blobs")) {
      return this.#repository(scan, folder, id);
    }
    if (listing.folders.includes("manifests") && listing.folders.includes("blobs")) {
      return { ...NOTHING, found: await inspectOllama(scan, dir) };
    }
    return this.#plainFolder(scan, folder, listing);
  }

  async #repository(scan: Scan, folder: Folder, id: string): Promise<Visit> {
    const { snapshots, begun } = await readRepository(scan, folder.dir, id);
    const below = snapshots.map(({ dir, place }) => {
      return { dir, real: folder.real + dir.slice(folder.dir.length), depth: folder.depth + 2, place, ggufOnly: false };
    });
    return { found: begun === undefined ? [] : [begun], below, linked: [] };
  }

  async #plainFolder(scan: Scan, folder: Folder, listing: Listing): Promise<Visit> {
    const { dir, depth } = folder;
    const place = folder.place.layout === "folder" ? { ...PLAIN, unfinished: await localDownload(scan, listing, dir) } : folder.place;
    const [model, ggufs] = await Promise.all([
      folder.ggufOnly ? undefined : inspectModelFolder(scan, dir, listing.files, place),
      this.#ggufs(scan, folder, listing, place),
    ]);
    const found = model === undefined ? ggufs : [model, ...ggufs];
    if (depth >= MAX_DEPTH) return { ...NOTHING, found };
    const ggufOnly = folder.ggufOnly || model !== undefined || place.layout === "hf-cache" || listing.files.includes("model_index.json");
    const next = { depth: depth + 1, place: { ...folder.place, unfinished: place.unfinished }, ggufOnly };
    const below = listing.folders.filter(isWalked).map((name) => ({ ...next, dir: `${dir}/${name}`, real: `${folder.real}/${name}` }));
    const links = listing.links.filter(({ name }) => isWalked(name));
    return { found, below, linked: links.map(({ name, realPath }) => ({ ...next, dir: `${dir}/${name}`, real: realPath })) };
  }

  async #ggufs(scan: Scan, { dir, real }: Folder, listing: Listing, place: Place): Promise<readonly Weights[]> {
    const names = listing.files.filter((name) => /\.gguf$/i.test(name) && !name.startsWith("."));
    if (names.length === 0 || this.#ggufsSeen.has(real)) return [];
    this.#ggufsSeen.add(real);
    return inspectGgufs(scan, dir, names, place.layout === "folder" ? { ...place, layout: "gguf" } : place);
  }
}

/** Hidden folders are bookkeeping (`.locks`, `.cache`, `.git`); data sets and spaces of a hub cache hold no models. */
function isWalked(name: string): boolean {
  return !name.startsWith(".") && !/^(datasets|spaces|kernels)--/.test(name);
}

/** `hf download --local-dir` keeps its unfinished files beside the model. They stay after a broken download, so they prove nothing alone. */
async function localDownload(scan: Scan, listing: Listing, dir: string): Promise<"no" | "maybe"> {
  if (!listing.folders.includes(".cache")) return "no";
  const downloads = [".cache", "huggingface", "download"];
  if ((await mtimeBelow(scan, dir, downloads)) === undefined) return "no";
  const { files } = await listFolder(scan, [dir, ...downloads].join("/"));
  return files.some((name) => name.endsWith(".incomplete")) ? "maybe" : "no";
}
