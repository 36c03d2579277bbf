/** The `root/` of a recorded machine: a file tree as seen from `/`, with links resolved inside it and never out of it. */
import { closeSync, type Dirent, lstatSync, openSync, readdirSync, readlinkSync, readSync } from "node:fs";
import { join } from "node:path";

export type Entry =
  /** `host` is where it stands on the disk of whoever replays the machine, `path` where it stood on the machine. */
  | {
      readonly kind: "file" | "directory";
      readonly path: string;
      readonly host: string;
      readonly sizeBytes: number;
      readonly mtimeMs: number;
    }
  /** Nothing there; `path` is where the way ended: the path asked for with the links before it resolved. */
  | { readonly kind: "missing"; readonly path: string }
  | { readonly kind: "loop"; readonly path: string };

const MAX_LINKS = 40;

/** Follows a path from the root of the tree. Absolute links start at the tree's root, `..` stops there. */
export function resolveEntry(root: string, path: string, followLast = true): Entry {
  let left = path.split("/").filter((part) => part !== "" && part !== ".");
  let at: string[] = [];
  let links = 0;
  while (left.length > 0) {
    const [part = "", ...rest] = left;
    left = rest;
    if (part === "..") {
      at.pop();
      continue;
    }
    const here = [...at, part];
    const host = join(root, ...here);
    const found = lstatSync(host, { throwIfNoEntry: false });
    if (found === undefined) return { kind: "missing", path: `/${[...here, ...rest].join("/")}` };
    if (!found.isSymbolicLink() || (rest.length === 0 && !followLast)) {
      at = here;
      if (rest.length > 0 && !found.isDirectory()) return { kind: "missing", path: `/${[...here, ...rest].join("/")}` };
      continue;
    }
    if (++links > MAX_LINKS) return { kind: "loop", path: `/${here.join("/")}` };
    const target = readlinkSync(host);
    if (target.startsWith("/")) at = [];
    left = [...target.split("/").filter((step) => step !== "" && step !== "."), ...rest];
  }
  const host = join(root, ...at);
  const found = lstatSync(host, { throwIfNoEntry: false });
  if (found === undefined) return { kind: "missing", path: `/${at.join("/")}` };
  const kind = found.isDirectory() ? "directory" : "file";
  return { kind, path: `/${at.join("/")}`, host, sizeBytes: found.size, mtimeMs: found.mtimeMs };
}

/** The target of a link as written, `undefined` for anything else. */
export function linkTarget(root: string, path: string): string | undefined {
  const entry = resolveEntry(root, path, false);
  if (entry.kind === "missing" || entry.kind === "loop") return undefined;
  const found = lstatSync(entry.host, { throwIfNoEntry: false });
  return found?.isSymbolicLink() === true ? readlinkSync(entry.host) : undefined;
}

export function entryNames(host: string): readonly string[] {
  return readdirSync(host, { withFileTypes: true })
    .map((entry: Dirent) => entry.name)
    .sort();
}

/** At most `maxBytes` from `offset` on. */
export function readPart(host: string, offset: number, maxBytes: number): Uint8Array {
  const fd = openSync(host, "r");
  try {
    const size = Math.max(0, Math.min(maxBytes, (lstatSync(host, { throwIfNoEntry: false })?.size ?? 0) - offset));
    const bytes = new Uint8Array(size);
    const read = size === 0 ? 0 : readSync(fd, bytes, 0, size, offset);
    return bytes.subarray(0, read);
  } finally {
    closeSync(fd);
  }
}
