/** Unpacks the recorded machines that the released program carries. Imported only when a machine is asked for by name. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import * as v from "valibot";
import { packMachines } from "./pack-machines.ts" with { type: "macro" };

const Entries = v.array(v.object({ path: v.string(), file: v.optional(v.string()), link: v.optional(v.string()) }));

const packed: string = packMachines();

function entries(): v.InferOutput<typeof Entries> {
  return v.parse(Entries, JSON.parse(Buffer.from(Bun.gunzipSync(Buffer.from(packed, "base64"))).toString("utf8")));
}

/** Names of the machines in the program. */
export function packedNames(): readonly string[] {
  return entries().flatMap((entry) => (/^[^/]+\/machine\.yaml$/.test(entry.path) ? [dirname(entry.path)] : []));
}

/** Lays one machine out in a temporary folder, removed when the process ends. `undefined` when the program has no such machine. */
export function unpackMachine(name: string): string | undefined {
  const own = entries().filter((entry) => entry.path.startsWith(`${name}/`));
  if (own.length === 0) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "llmgw-machine-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  for (const entry of own) {
    const at = join(folder, entry.path);
    mkdirSync(dirname(at), { recursive: true });
    if (entry.link !== undefined) symlinkSync(entry.link, at);
    else writeFileSync(at, Buffer.from(entry.file ?? "", "base64"));
  }
  return join(folder, name);
}
