/**
 * Remembers everything that a command looked at and writes it as a recorded machine (DESIGN.md, section 5).
 *
 * It wraps another runner and passes every answer through, so the recording holds exactly what this version of llmgw asks for. What
 * model folders hold is left out: it is large and says nothing about hardware. Those that were there are recorded empty, with their
 * disks; the others are listed as absent.
 */
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { stringify } from "yaml";
import { contentHash } from "../lib/content-hash.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import type { MachineFile, RecordedCommand } from "./machine-file.ts";
import { createMask, type Mask } from "./mask.ts";
import type { NvmlSnapshot } from "./nvml-snapshot.ts";
import { NVML_FILE } from "./recorded-runner.ts";
import { type DiskSpace, type ExecResult, type FileStat, type NvmlOptions, type Runner, RunnerError } from "./runner.ts";

export interface Recorder {
  /** Use this in place of the wrapped runner. */
  readonly runner: Runner;
  /** Writes the folder. Throws `UserError` when it exists with content or cannot be written. */
  write(folder: string, options: RecordOptions): RecordSummary;
}

export interface RecordOptions {
  readonly about: string;
  /** Serial numbers, UUIDs, host and user names as they are. */
  readonly raw: boolean;
  readonly users: readonly string[];
  /** What the node is called beside what its kernel says, such as in agent.yaml. */
  readonly hostnames: readonly string[];
}

export interface RecordSummary {
  readonly folder: string;
  readonly commands: number;
  readonly files: number;
}

interface Memory {
  readonly commands: Map<string, { readonly argv: readonly string[]; readonly result: ExecResult | "absent" | "hung" | "busy" }>;
  readonly files: Map<string, Uint8Array>;
  readonly folders: Set<string>;
  readonly links: Map<string, string>;
  readonly absent: Set<string>;
  readonly unreadable: Set<string>;
  readonly disks: Map<string, DiskSpace>;
  nvml: NvmlSnapshot | undefined;
  nvmlFailure: string | undefined;
  /** Folders whose content is left out, and where those of them that are links really stand. */
  readonly leftOut: Set<string>;
  /** Those of them that were there. */
  readonly modelFolders: Set<string>;
}

/** `modelFolders`: folders whose content is not recorded. */
export function createRecorder(inner: Runner, modelFolders: readonly string[]): Recorder {
  const leaveOut = modelFolders.map(bare).filter(firstOnly);
  const memory: Memory = {
    commands: new Map(),
    files: new Map(),
    folders: new Set(),
    links: new Map(),
    absent: new Set(),
    unreadable: new Set(),
    disks: new Map(),
    nvml: undefined,
    nvmlFailure: undefined,
    leftOut: new Set(leaveOut),
    modelFolders: new Set(),
  };
  const recordedAt = inner.now();
  return {
    runner: recordingRunner(inner, memory, leaveOut),
    write: (folder, options) =>
      explained(folder, () => writeRecording(memory, folder, { recordedAt, home: inner.home }, leaveOut, options)),
  };
}

/** What the file system says against writing there, as advice. */
function explained<T>(folder: string, write: () => T): T {
  try {
    return write();
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    throw new UserError(
      { what: `the recording cannot be written to ${folder}`, why: messageOf(error), fix: "give a folder that this user can write" },
      { cause: error },
    );
  }
}

/** A path without slashes at its end. */
function bare(path: string): string {
  return path.replace(/(?<=.)\/+$/, "");
}

function recordingRunner(inner: Runner, memory: Memory, leaveOut: readonly string[]): Runner {
  const isLeftOut = (path: string): boolean => [...memory.leftOut].some((top) => bare(path) === top || path.startsWith(`${top}/`));
  const note = async <T>(path: string, look: () => Promise<T | undefined>, keep: (value: T) => void): Promise<T | undefined> => {
    if (isLeftOut(path)) return look();
    try {
      const value = await look();
      if (value === undefined) memory.absent.add(path);
      else keep(value);
      return value;
    } catch (error) {
      if (error instanceof RunnerError && error.kind !== "aborted") memory.unreadable.add(path);
      throw error;
    } finally {
      await rememberLinks(inner, path, memory);
    }
  };
  return {
    label: inner.label,
    kind: inner.kind,
    home: inner.home,
    now: () => inner.now(),
    ...(inner.nvml === undefined
      ? {}
      : {
          nvml: async (options?: NvmlOptions) => {
            try {
              const snapshot = await inner.nvml?.(options);
              memory.nvml = snapshot;
              return snapshot;
            } catch (error) {
              if (error instanceof RunnerError && error.kind !== "aborted") memory.nvmlFailure = error.message;
              throw error;
            }
          },
        }),
    exec: async (argv, options) => {
      const key = JSON.stringify(argv);
      try {
        const result = await inner.exec(argv, options);
        memory.commands.set(key, { argv, result: result ?? "absent" });
        return result;
      } catch (error) {
        if (error instanceof RunnerError && error.kind !== "aborted") {
          memory.commands.set(key, { argv, result: error.kind === "busy" ? "busy" : "hung" });
        }
        throw error;
      }
    },
    readFile: (path, options) =>
      note(
        path,
        () => inner.readFile(path, options),
        (bytes) => {
          const known = memory.files.get(path);
          if ((options?.offset ?? 0) === 0 && (known === undefined || known.length < bytes.length)) memory.files.set(path, bytes);
        },
      ),
    listDir: (path, options) =>
      note(
        path,
        () => inner.listDir(path, options),
        (names) => {
          memory.folders.add(path);
          for (const name of names) memory.folders.add(`${path}/${name}`);
        },
      ),
    readLink: (path) =>
      note(
        path,
        () => inner.readLink(path),
        (target) => memory.links.set(path, target),
      ),
    realPath: async (path, options) => {
      const real = await note(
        path,
        () => inner.realPath(path, options),
        () => memory.folders.add(path),
      );
      // Weights are read where they really stand.
      if (real !== undefined && isLeftOut(path)) memory.leftOut.add(real);
      return real;
    },
    stat: (path, options) =>
      leaveOut.includes(bare(path))
        ? rememberModelFolder(memory, bare(path), () => inner.stat(path, options))
        : note(
            path,
            () => inner.stat(path, options),
            (found: FileStat) => rememberStat(memory, path, found),
          ),
    diskSpace: async (path) => {
      const space = await inner.diskSpace(path);
      if (space !== undefined) memory.disks.set(path, space);
      return space;
    },
  };
}

/** Of a model folder only whether it is there, and may be looked at. */
async function rememberModelFolder(memory: Memory, path: string, look: () => Promise<FileStat | undefined>): Promise<FileStat | undefined> {
  try {
    const found = await look();
    if (found?.kind === "directory") memory.modelFolders.add(path);
    return found;
  } catch (error) {
    if (error instanceof RunnerError && error.kind !== "aborted") memory.unreadable.add(path);
    throw error;
  }
}

function rememberStat(memory: Memory, path: string, found: FileStat): void {
  if (found.kind === "directory") memory.folders.add(path);
  else if (!memory.files.has(path)) memory.files.set(path, new Uint8Array());
}

/** Every link on the way is kept as a link: sysfs is made of them, and readers resolve them. */
async function rememberLinks(inner: Runner, path: string, memory: Memory): Promise<void> {
  const parts = path.split("/").filter((part) => part !== "");
  for (let length = 1; length <= parts.length; length++) {
    const at = `/${parts.slice(0, length).join("/")}`;
    if (memory.links.has(at) || memory.absent.has(at)) continue;
    try {
      const target = await inner.readLink(at);
      if (target !== undefined) memory.links.set(at, target);
    } catch {
      // What may not be looked at is remembered where it was asked for.
    }
  }
}

/** Refuses a folder that holds something already. Asked before the node is looked at, so that nobody waits for a no. */
export function checkRecordFolder(folder: string): void {
  explained(folder, () => {
    mkdirSync(folder, { recursive: true });
    if (readdirSync(folder).length === 0) return;
    throw new UserError({
      what: `${folder} is not empty`,
      why: "a recording is written into a folder of its own, and nothing is overwritten",
      fix: "give another folder, or remove that one",
    });
  });
}

function writeRecording(
  memory: Memory,
  folder: string,
  { recordedAt, home }: { readonly recordedAt: Date; readonly home: string },
  leaveOut: readonly string[],
  options: RecordOptions,
): RecordSummary {
  checkRecordFolder(folder);
  const mask = options.raw ? undefined : createMask({ hostnames: [...hostnameOf(memory), ...options.hostnames], users: options.users });
  const text = (original: string): string => mask?.text(original) ?? original;
  mkdirSync(join(folder, "root"), { recursive: true });
  const commands = writeCommands(memory, folder, text);
  if (memory.nvml !== undefined) writeFileSync(join(folder, NVML_FILE), text(`${JSON.stringify(memory.nvml, undefined, 2)}\n`));
  const files = writeTree(memory, join(folder, "root"), mask);
  const missing = leaveOut.filter((path) => !memory.modelFolders.has(path) && !memory.unreadable.has(path));
  const machine: MachineFile = {
    about: options.about,
    source: "recorded",
    recorded_at: recordedAt.toISOString(),
    ...(home === "/root" ? {} : { home: text(home) }),
    unrecorded: "error",
    commands,
    ...(memory.nvmlFailure === undefined ? {} : { nvml_fails: text(memory.nvmlFailure) }),
    absent_commands: [...memory.commands.values()]
      .flatMap((c) => (c.result === "absent" ? [basename(c.argv[0] ?? "")] : []))
      .filter(firstOnly),
    absent: [...[...memory.absent].filter((path) => !hasAncestor(path, memory.absent)), ...missing].map(text).sort(),
    unreadable: [...memory.unreadable].map(text).sort(),
    disks: Object.fromEntries([...memory.disks].map(([path, space]) => [text(path), { ...space }])),
  };
  const head = [
    "# Written by llmgw inventory --record. Serial numbers, UUIDs, GUIDs, addresses, host and user names are",
    options.raw
      ? "# as the machine gave them (--record-raw): look before you share it."
      : "# replaced, the same one by the same one. Look before you share it.",
    `# What model folders hold is not recorded: ${leaveOut.length === 0 ? "none were asked for" : leaveOut.map(text).join(", ")}.`,
    "",
  ];
  writeFileSync(join(folder, "machine.yaml"), head.join("\n") + stringify(machine, { lineWidth: 140 }));
  return { folder, commands: commands.length, files };
}

function firstOnly<T>(value: T, at: number, all: readonly T[]): boolean {
  return all.indexOf(value) === at;
}

function hasAncestor(path: string, paths: ReadonlySet<string>): boolean {
  for (let at = dirname(path); at !== "/" && at !== "."; at = dirname(at)) if (paths.has(at)) return true;
  return false;
}

function writeCommands(memory: Memory, folder: string, text: (original: string) => string): RecordedCommand[] {
  const commands: RecordedCommand[] = [];
  const stems = new Set<string>();
  for (const { argv, result } of memory.commands.values()) {
    if (result === "absent") continue;
    const words = [basename(argv[0] ?? ""), ...argv.slice(1)].map(text);
    if (result === "hung" || result === "busy") {
      commands.push({ argv: words, ...(result === "hung" ? { hangs: true } : { busy: true }) });
      continue;
    }
    const stem = fileStem(words, stems);
    stems.add(stem);
    if (result.stdout !== "") writeFileSync(join(folder, `${stem}.txt`), text(result.stdout));
    if (result.stderr !== "") writeFileSync(join(folder, `${stem}.stderr.txt`), text(result.stderr));
    commands.push({
      argv: words,
      ...(result.stdout === "" ? {} : { stdout: `${stem}.txt` }),
      ...(result.stderr === "" ? {} : { stderr: `${stem}.stderr.txt` }),
      exit: result.exitCode,
    });
  }
  return commands;
}

/** No file name is longer, in bytes (`NAME_MAX`), and `.stderr.txt` comes behind. */
const MAX_STEM = 80;

/** A file name for a command line: readable, short, and another one for each. */
function fileStem(words: readonly string[], taken: ReadonlySet<string>): string {
  const line = words.join(" ");
  const stem = line.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  if (stem.length <= MAX_STEM && !taken.has(stem)) return stem;
  return `${stem.slice(0, MAX_STEM)}-${contentHash(JSON.stringify(words)).slice(0, 8)}`;
}

/** Links first: what lies behind one is written where it really stands. */
function writeTree(memory: Memory, root: string, mask: Mask | undefined): number {
  const text = (original: string): string => mask?.text(original) ?? original;
  const links = new Map([...memory.links].map(([path, target]) => [text(path), text(target)]));
  const real = (path: string): string => realIn(links, path);
  let written = 0;
  for (const [path, target] of [...links].sort(([a], [b]) => a.length - b.length)) {
    const at = join(root, real(dirname(path)), basename(path));
    mkdirSync(dirname(at), { recursive: true });
    if (!linkOrFileExists(at)) symlinkSync(target, at);
  }
  for (const [path, bytes] of memory.files) {
    const at = join(root, real(text(path)));
    mkdirSync(dirname(at), { recursive: true });
    writeFileSync(at, mask === undefined ? bytes : maskedBytes(bytes, mask));
    written++;
  }
  for (const path of [...memory.folders, ...memory.modelFolders].sort()) {
    const at = join(root, real(text(path)));
    if (!linkOrFileExists(at)) mkdirSync(at, { recursive: true });
  }
  return written;
}

function linkOrFileExists(path: string): boolean {
  return existsSync(path) || readdirSafely(dirname(path)).includes(basename(path));
}

function readdirSafely(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

/** Resolves the recorded links of a path, as the machine would. */
function realIn(links: ReadonlyMap<string, string>, path: string): string {
  let at = "";
  let left = path.split("/").filter((part) => part !== "" && part !== ".");
  for (let steps = 0; left.length > 0 && steps < 1_000; steps++) {
    const [part = "", ...rest] = left;
    left = rest;
    if (part === "..") {
      at = at.slice(0, Math.max(0, at.lastIndexOf("/")));
      continue;
    }
    const here = `${at}/${part}`;
    const target = links.get(here);
    if (target === undefined) {
      at = here;
      continue;
    }
    if (target.startsWith("/")) at = "";
    left = [...target.split("/").filter((step) => step !== "" && step !== "."), ...rest];
  }
  return at === "" ? "/" : at;
}

/** Text is masked; bytes that are no text (PCI configuration) stay as they are. */
function maskedBytes(bytes: Uint8Array, mask: Mask): Uint8Array {
  if (bytes.includes(0)) return bytes;
  return new TextEncoder().encode(mask.text(new TextDecoder().decode(bytes)));
}

function hostnameOf(memory: Memory): readonly string[] {
  const bytes = memory.files.get("/proc/sys/kernel/hostname") ?? memory.files.get("/etc/hostname");
  return bytes === undefined ? [] : [new TextDecoder().decode(bytes).trim()];
}
