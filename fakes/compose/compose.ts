/** `bun fakes/compose/compose.ts`: writes every described machine to fakes/machines/. With `--check`: exit 1 when a folder is stale. */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { MACHINES } from "./machines.ts";
import { renderMachine } from "./render-machine.ts";
import type { TreeEntry } from "./render-tree.ts";

export const MACHINES_FOLDER = join(import.meta.dir, "../machines");

/** Differences between a machine's folder and its description: file names. */
export function staleFiles(name: string, files: ReadonlyMap<string, TreeEntry>): readonly string[] {
  const folder = join(MACHINES_FOLDER, name);
  const found = new Set(existsSync(folder) ? walk(folder, "") : []);
  const missing = [...files].filter(([path, entry]) => !found.has(path) || !isSame(join(folder, path), entry)).map(([path]) => path);
  return [...missing, ...[...found].filter((path) => !files.has(path))].sort();
}

/** Every file and link below a folder. */
export function walk(top: string, below: string): string[] {
  return readdirSync(join(top, below), { withFileTypes: true }).flatMap((entry) => {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    return entry.isDirectory() ? walk(top, path) : [path];
  });
}

function isSame(path: string, entry: TreeEntry): boolean {
  const isLink = lstatSync(path).isSymbolicLink();
  if (typeof entry === "object" && "link" in entry) return isLink && readlinkSync(path) === entry.link;
  return !isLink && readFileSync(path).equals(Buffer.from(entry));
}

function write(name: string, files: ReadonlyMap<string, TreeEntry>): void {
  const folder = join(MACHINES_FOLDER, name);
  rmSync(folder, { recursive: true, force: true });
  for (const [path, entry] of files) {
    const at = join(folder, path);
    mkdirSync(dirname(at), { recursive: true });
    if (typeof entry === "object" && "link" in entry) symlinkSync(entry.link, at);
    else writeFileSync(at, entry);
  }
}

if (import.meta.main) {
  const check = process.argv.includes("--check");
  for (const machine of MACHINES) {
    const files = renderMachine(machine);
    const stale = staleFiles(machine.name, files);
    if (stale.length === 0) continue;
    if (!check) write(machine.name, files);
    process.stdout.write(`${machine.name}: ${stale.length} files ${check ? "differ" : "written"}\n`);
    if (check) process.exitCode = 1;
  }
}
