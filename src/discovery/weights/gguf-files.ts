/**
 * The GGUF files of one folder: single files, split ones, and what belongs beside a model (reference/weights.md, section 1.3).
 */
import type { Weights } from "../../domain/inventory.ts";
import { printable } from "../../lib/printable.ts";
import { ggufSplitProblems, lengthProblem, numbered, numberingProblems } from "./complete.ts";
import { type GgufHeader, readGguf } from "./gguf.ts";
import { ggufCount, ggufFacts, ggufKind, ggufText } from "./gguf-facts.ts";
import { hasChanged, lookAt, type Place, readProblem, type Scan, sourceOf } from "./weight-file.ts";
import { type Noted, refuse, type WeightFile, watch, weightsRecord } from "./weights-record.ts";

/** One GGUF file as far as it could be read. */
export interface GgufFile {
  readonly name: string;
  readonly path: string;
  readonly file?: WeightFile;
  readonly header?: GgufHeader;
  readonly growing: boolean;
  readonly noted: readonly Noted[];
}

/** The models among the GGUF files of a folder, one record for each file or split group; `names` end in `.gguf`. */
export async function inspectGgufs(scan: Scan, dir: string, names: readonly string[], place: Place): Promise<readonly Weights[]> {
  const groups = [...Map.groupBy(names, groupOf).entries()];
  const read = await Promise.all(
    groups.map(async ([group, members]) => {
      const files = await Promise.all(members.toSorted().map((name) => readGgufFile(scan, `${dir}/${name}`, name)));
      return { group, files, kind: ggufKind(files.find((file) => file.header !== undefined)?.header, members[0] ?? group) };
    }),
  );
  const beside = read.filter(({ kind }) => kind === "mmproj" || kind === "adapter" || kind === "mtp");
  const sideFiles = beside.flatMap(({ files }) => files.map((file) => printable(file.name))).sort();
  return read
    .filter(({ kind }) => kind === "model")
    .map(({ group, files }) => ggufRecord(modelName(group, place), files, place, sideFiles));
}

/** Name of a group: the file's without ending, of a split one without the count. */
function groupOf(name: string): string {
  return numbered(name)?.prefix ?? name.replace(/\.gguf$/i, "");
}

function modelName(group: string, place: Place): string {
  return printable(place.name === undefined ? group : `${place.name}/${group}`);
}

/** Reads one file's header and compares it with the file. Never throws for what the disk does. */
export async function readGgufFile(scan: Scan, path: string, name: string): Promise<GgufFile> {
  const found = await lookAt(scan, path, name);
  if (found.kind === "bad") return { name, path, growing: false, noted: [refuse(found.problem)] };
  const file: WeightFile = { name, realPath: found.realPath, size: found.size, headerSha256: undefined };
  try {
    const verdict = await readGguf(sourceOf(scan, found));
    if (verdict.kind === "bad") {
      const growing = verdict.cutOff && (await hasChanged(scan, found));
      return { name, path, file, growing, noted: [refuse(`${printable(name)}: ${verdict.problem}`)] };
    }
    const { header } = verdict;
    const cutOff = lengthProblem(name, found.size, header.needed_bytes, false);
    const growing = cutOff !== undefined && (await hasChanged(scan, found));
    const noted = cutOff === undefined ? newerTypes(name, header) : [refuse(cutOff), ...newerTypes(name, header)];
    return { name, path, file: { ...file, headerSha256: header.sha256 }, header, growing, noted };
  } catch (thrown) {
    const why = readProblem(thrown);
    scan.warn(`${printable(path)}: cannot be read: ${why}`);
    return { name, path, file, growing: false, noted: [refuse(`${printable(name)}: cannot be read: ${why}`)] };
  }
}

function newerTypes(name: string, header: GgufHeader): readonly Noted[] {
  if (header.newer_types.length === 0) return [];
  return [watch(`${printable(name)}: tensor types ${header.newer_types.join(", ")} are newer than this llmgw: its length was not checked`)];
}

/** The record of one model from its files in order. */
export function ggufRecord(name: string, files: readonly GgufFile[], place: Place, sideFiles: readonly string[]): Weights {
  const headers = files.flatMap((file) => file.header ?? []);
  const first = headers[0];
  const noted = [...files.flatMap((file) => file.noted), ...splitProblems(files)];
  // A part of the model's headers would give a part of its parameters.
  const whole = headers.length === files.length && !noted.some((note) => note.kind === "refuse");
  const facts = first === undefined ? {} : ggufFacts(first, headers);
  return weightsRecord(
    {
      name,
      layout: place.layout,
      format: "gguf",
      path: files[0]?.path ?? "",
      revision: place.revision,
      ...facts,
      ...(whole || files.length === 1 ? {} : { parameters: undefined }),
      side_files: sideFiles.length === 0 ? undefined : [...sideFiles],
    },
    files.flatMap((file) => file.file ?? []),
    noted,
    // Its header proves a GGUF whole, so that a second file being fetched into the same repository says nothing about this one.
    files.some((file) => file.growing) || (place.unfinished !== "no" && noted.some((note) => note.kind === "refuse")),
  );
}

function splitProblems(files: readonly GgufFile[]): readonly Noted[] {
  const names = files.map((file) => file.name);
  const total = numbered(names[0] ?? "")?.total;
  const headers = files.filter((file) => file.header !== undefined);
  if (total === undefined) {
    const holdsNothing = headers.some((file) => file.header?.tensors === 0);
    const alone = headers.some((file) => file.header !== undefined && (ggufCount(file.header, "split.count") ?? 1) > 1);
    return [
      ...(alone ? [refuse("one part of a split model, under a name that does not say which")] : []),
      ...(holdsNothing ? [refuse(`${printable(names[0] ?? "")}: holds no tensors`)] : []),
    ];
  }
  const facts = files.flatMap(({ name, header }) =>
    header === undefined
      ? []
      : {
          name,
          part: numbered(name)?.part ?? 0,
          split_no: ggufCount(header, "split.no"),
          split_count: ggufCount(header, "split.count"),
          split_tensors: ggufCount(header, "split.tensors.count"),
          tensors: header.tensors,
          architecture: ggufText(header, "general.architecture"),
        },
  );
  return [...numberingProblems(names), ...ggufSplitProblems(facts, total)].map(refuse);
}
