/** A recorded machine, with whatever is said of it, as one file for a bug report. */
import { existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { renderTar, type TarEntry } from "../lib/tar.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import type { Recorder, RecordOptions } from "./recorder.ts";

export interface Bundle {
  /** Paths in the archive. */
  readonly paths: readonly string[];
  write(): void;
}

/** Refuses a file that exists: nothing is overwritten. Asked before the node is looked at, so that nobody waits for a no. */
export function checkBundleFile(file: string): void {
  if (!existsSync(file)) return;
  throw new UserError({ what: `${file} exists`, why: "a bundle overwrites nothing", fix: "give another name, or remove that file" });
}

/** Lays the recording out in a temporary folder, and leaves none behind when it cannot. */
export function recordForBundle(recorder: Recorder, options: RecordOptions): string {
  const top = mkdtempSync(join(tmpdir(), "llmgw-bundle-"));
  try {
    const folder = join(top, "machine");
    recorder.write(folder, options);
    return folder;
  } catch (error) {
    rmSync(top, { recursive: true, force: true });
    throw error;
  }
}

/** The recording and the texts beside it, ready to be listed and written. */
export function createBundle(file: string, machine: string, texts: Readonly<Record<string, string>>): Bundle {
  const top = basename(file).replace(/\.tar\.gz$|\.tgz$/, "");
  const entries: TarEntry[] = [
    ...Object.entries(texts).map(([name, text]) => ({ path: `${top}/${name}`, content: new TextEncoder().encode(text) })),
    ...walk(machine, "").map((path) => ({ path: `${top}/machine/${path}`, content: contentOf(join(machine, path)) })),
  ];
  return {
    paths: entries.map((entry) => entry.path),
    write: () => {
      try {
        writeFileSync(file, Bun.gzipSync(Uint8Array.from(renderTar(entries, Date.now() / 1000))), { flag: "wx", mode: 0o600 });
      } catch (error) {
        throw new UserError(
          { what: `${file} cannot be written`, why: messageOf(error), fix: "give a place that this user may write to" },
          { cause: error },
        );
      }
    },
  };
}

/** Takes the temporary folder of a recording away. */
export function discardRecording(machine: string): void {
  rmSync(join(machine, ".."), { recursive: true, force: true });
}

function walk(top: string, below: string): string[] {
  return readdirSync(join(top, below), { withFileTypes: true })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      return entry.isDirectory() ? walk(top, path) : [path];
    });
}

function contentOf(path: string): TarEntry["content"] {
  return lstatSync(path).isSymbolicLink() ? { link: readlinkSync(path) } : Uint8Array.from(readFileSync(path));
}
