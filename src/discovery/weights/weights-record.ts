/**
 * Problems and facts on their way to one `Weights` record.
 */
import { createHash } from "node:crypto";
import type { Weights } from "../../domain/inventory.ts";
import { MAX_PROBLEMS } from "./limits.ts";

/** What was noticed about a model. `refuse`: it cannot be placed; `watch`: it can. */
export interface Noted {
  readonly kind: "refuse" | "watch";
  readonly text: string;
}

export const refuse = (text: string): Noted => ({ kind: "refuse", text });
export const watch = (text: string): Noted => ({ kind: "watch", text });

/** A weight file that is there, for the size and identity of its model. */
export interface WeightFile {
  readonly name: string;
  readonly realPath: string;
  readonly size: number;
  /** Hash over its header; absent where there is none or it could not be read. */
  readonly headerSha256: string | undefined;
}

type Facts = Omit<Weights, "bytes" | "files" | "state" | "problems" | "id">;

/** Puts a record together. `downloading` says that somebody is still writing the files, whatever is missing of them. */
export function weightsRecord(facts: Facts, files: readonly WeightFile[], noted: readonly Noted[], downloading: boolean): Weights {
  const blobs = new Map(files.map((file) => [file.realPath, file.size]));
  const refused = noted.some((note) => note.kind === "refuse");
  return present({
    ...facts,
    bytes: [...blobs.values()].reduce((sum, size) => sum + size, 0),
    files: files.length,
    state: downloading ? "downloading" : refused ? "incomplete" : "complete",
    problems: problemTexts(noted),
    id: identity(files),
  });
}

/** What forbids comes first: of a long list only the beginning is shown. */
function problemTexts(noted: readonly Noted[]): string[] {
  const texts = [...noted.filter((note) => note.kind === "refuse"), ...noted.filter((note) => note.kind === "watch")].map(
    (note) => note.text,
  );
  const distinct = [...new Set(texts)];
  return distinct.length > MAX_PROBLEMS
    ? [...distinct.slice(0, MAX_PROBLEMS), `and ${distinct.length - MAX_PROBLEMS} more problems`]
    : distinct;
}

/** Equal where names, lengths and headers of all weight files are equal; unknown when one header could not be read. */
function identity(files: readonly WeightFile[]): string | undefined {
  if (files.length === 0 || files.some((file) => file.headerSha256 === undefined)) return undefined;
  const lines = files.map((file) => JSON.stringify([file.name, file.size, file.headerSha256])).sort();
  return createHash("sha256").update(lines.join("\n")).digest("hex").slice(0, 16);
}

/** A key whose value is unknown is left out (STYLE.md, types). */
function present<T extends object>(record: T): T {
  // Only keys that are `undefined` go, and those are optional in T.
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as T;
}
