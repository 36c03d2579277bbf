import { createHash } from "node:crypto";
import { listed, printable } from "../../lib/printable.ts";
import { lengthProblem } from "./complete.ts";
import { readSafetensors, type SafetensorsHeader } from "./safetensors.ts";
import { type Packing, type TensorTotals, tensorTotals } from "./tensor-totals.ts";
import { type FoundFile, hasChanged, lookAt, readProblem, type Scan, sourceOf } from "./weight-file.ts";
import { type Noted, refuse, type WeightFile } from "./weights-record.ts";

/** One weight file, reduced to what its model needs: half a million tensors of a large model are not kept. */
export interface Shard {
  readonly file?: WeightFile;
  readonly totals?: TensorTotals;
  /** Length of the tensors' part. */
  readonly data_bytes?: number;
  /** It changed while we looked. */
  readonly growing: boolean;
  readonly noted: readonly Noted[];
}

/**
 * Looks at the weight files of one folder. Without `packing` they are pickles, which are measured and never read. `placed` are the
 * tensors that an index says are in each file.
 */
export function readShards(
  scan: Scan,
  dir: string,
  names: readonly string[],
  packing: Packing | undefined,
  placed: ReadonlyMap<string, readonly string[]> | undefined,
): Promise<readonly Shard[]> {
  return Promise.all(
    names.map(async (name): Promise<Shard> => {
      const file = await lookAt(scan, `${dir}/${name}`, name);
      if (file.kind === "bad") return { growing: false, noted: [refuse(file.problem)] };
      return packing === undefined ? withoutHeader(file) : readShard(scan, file, packing, placed?.get(name) ?? []);
    }),
  );
}

function withoutHeader(file: FoundFile, noted: readonly Noted[] = [], growing = false): Shard {
  return { file: { name: file.name, realPath: file.realPath, size: file.size, headerSha256: undefined }, growing, noted };
}

async function readShard(scan: Scan, file: FoundFile, packing: Packing, placed: readonly string[]): Promise<Shard> {
  const name = printable(file.name);
  try {
    const verdict = await readSafetensors(sourceOf(scan, file));
    if (verdict.kind === "bad") {
      return withoutHeader(file, [refuse(`${name}: ${verdict.problem}`)], verdict.cutOff && (await hasChanged(scan, file)));
    }
    const { header } = verdict;
    const wrongLength = lengthProblem(file.name, file.size, header.needed_bytes, true);
    const absent = absentTensors(header, placed);
    const noted = [
      ...(wrongLength === undefined ? [] : [refuse(wrongLength)]),
      ...(absent.length === 0 ? [] : [refuse(`${name}: lacks tensors that the index places there: ${listed(absent)}`)]),
    ];
    return {
      file: {
        name: file.name,
        realPath: file.realPath,
        size: file.size,
        headerSha256: createHash("sha256").update(header.raw).digest("hex"),
      },
      totals: tensorTotals(header.tensors, packing),
      data_bytes: header.needed_bytes - header.header_bytes,
      growing: wrongLength !== undefined && (await hasChanged(scan, file)),
      noted,
    };
  } catch (thrown) {
    const why = readProblem(thrown);
    scan.warn(`${printable(file.path)}: cannot be read: ${why}`);
    return withoutHeader(file, [refuse(`${name}: cannot be read: ${why}`)]);
  }
}

function absentTensors(header: SafetensorsHeader, placed: readonly string[]): readonly string[] {
  if (placed.length === 0) return [];
  const present = new Set(header.tensors.map((tensor) => tensor.name));
  return placed.filter((tensor) => !present.has(tensor));
}
