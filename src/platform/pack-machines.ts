/** A bundler macro: runs while llmgw is built, and leaves the recorded machines of `fakes/machines/` in the program as one string. */
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";

/** One entry of a packed machine: a file's bytes in base64, or a link's target. */
export interface PackedEntry {
  readonly path: string;
  readonly file?: string;
  readonly link?: string;
}

/** All machines, as base64 of gzipped JSON: entries with paths below `fakes/machines/`. Trees are packed, since the bundler loses folders. */
export function packMachines(): string {
  const top = join(import.meta.dir, "../../fakes/machines");
  const entries: PackedEntry[] = [];
  const walk = (below: string): void => {
    for (const name of readdirSync(join(top, below)).sort()) {
      const path = below === "" ? name : `${below}/${name}`;
      const found = lstatSync(join(top, path));
      if (found.isSymbolicLink()) entries.push({ path, link: readlinkSync(join(top, path)) });
      else if (found.isDirectory()) walk(path);
      else entries.push({ path, file: readFileSync(join(top, path)).toString("base64") });
    }
  };
  walk("");
  return Buffer.from(Bun.gzipSync(Buffer.from(JSON.stringify(entries)))).toString("base64");
}
