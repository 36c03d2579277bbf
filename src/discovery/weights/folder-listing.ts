import { printable } from "../../lib/printable.ts";
import { isInside, readProblem, type Scan } from "./weight-file.ts";

export interface LinkedFolder {
  readonly name: string;
  readonly realPath: string;
}

export interface Listing {
  /** Everything that is no folder, links that lead nowhere included: whoever needs such a file says what is wrong with it. */
  readonly files: readonly string[];
  readonly folders: readonly string[];
  /** Links to folders inside the allowed roots. Those that lead out are named in a warning and not followed. */
  readonly links: readonly LinkedFolder[];
}

const NOTHING: Listing = { files: [], folders: [], links: [] };

/** What a folder holds. A folder that is missing is empty; one that cannot be read is empty and a warning. */
export async function listFolder(scan: Scan, dir: string): Promise<Listing> {
  let names: readonly string[];
  try {
    names = (await scan.runner.listDir(dir)) ?? [];
  } catch (thrown) {
    scan.warn(`${printable(dir)}: cannot be read: ${readProblem(thrown)}`);
    return NOTHING;
  }
  const taken = names.slice(0, scan.takeEntries(names.length));
  const kinds = await Promise.all(taken.map((name) => kindOf(scan, `${dir}/${name}`)));
  const files: string[] = [];
  const folders: string[] = [];
  const links: LinkedFolder[] = [];
  for (const [index, name] of taken.entries()) {
    const kind = kinds[index];
    if (kind === "file") files.push(name);
    else if (kind === "folder") folders.push(name);
    else if (kind !== undefined && kind !== "gone") links.push({ name, realPath: kind.realPath });
  }
  return { files, folders, links };
}

async function kindOf(scan: Scan, path: string): Promise<"file" | "folder" | "gone" | { readonly realPath: string }> {
  try {
    const [target, stat] = await Promise.all([scan.runner.readLink(path), scan.runner.stat(path)]);
    if (stat?.kind !== "directory") return stat === undefined && target === undefined ? "gone" : "file";
    if (target === undefined) return "folder";
    const realPath = await scan.runner.realPath(path);
    if (realPath === undefined) return "gone";
    if (isInside(scan.allowed, realPath)) return { realPath };
    scan.warn(`${printable(path)}: a link out of the model folders, to ${printable(realPath)}: not followed`);
    return "gone";
  } catch (thrown) {
    readProblem(thrown);
    return "file";
  }
}
