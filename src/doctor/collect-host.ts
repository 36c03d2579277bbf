/** What doctor reads of the host itself. */
import { type Runner, RunnerError, readText } from "../platform/runner.ts";
import type { Disk, Facts, FolderAccess, OpenFiles } from "./facts.ts";
import { inTime, step } from "./step.ts";

type HostFacts = Pick<
  Facts,
  "root" | "container" | "openFiles" | "sharedMemory" | "secureBoot" | "timeSynchronized" | "modelFolders" | "disks"
>;

const LIMIT_MS = 3_000;
const READ = { timeoutMs: 2_000, maxBytes: 64 * 1024 };

export async function collectHost(runner: Runner, modelDirs: readonly string[]): Promise<HostFacts> {
  const [status, marks, first, second, openFiles, sharedMemory, secureBoot, timeSynchronized, modelFolders, disks] = await Promise.all([
    step("/proc/self/status", LIMIT_MS, () => readText(runner, "/proc/self/status", READ)),
    Promise.all(CONTAINER_MARKS.map((path) => step(path, LIMIT_MS, () => runner.stat(path, READ)))),
    step("/proc/1/comm", LIMIT_MS, () => readText(runner, "/proc/1/comm", READ)),
    step("/proc/2/comm", LIMIT_MS, () => readText(runner, "/proc/2/comm", READ)),
    step("/proc/self/limits", LIMIT_MS, async () => parseOpenFiles(await readText(runner, "/proc/self/limits", READ))),
    step("/dev/shm", LIMIT_MS, () => runner.diskSpace("/dev/shm")),
    step("Secure Boot", LIMIT_MS, async () => parseSecureBoot(await runner.readFile(SECURE_BOOT, READ))),
    step("time service", LIMIT_MS, async () => ((await runner.stat(SYNCHRONIZED, READ)) === undefined ? undefined : true)),
    Promise.all(modelDirs.map((path) => accessOf(runner, path))),
    Promise.all(PLACES.map((path) => spaceOf(runner, path))),
  ]);
  return {
    root: status.kind === "read" ? parseRoot(status.value) : undefined,
    // On a host, and nowhere else, the second process is the kernel's own; containerd leaves no mark.
    container:
      marks.some((mark) => mark.kind === "read") || (first.kind === "read" && !(second.kind === "read" && second.value === "kthreadd")),
    openFiles,
    sharedMemory,
    secureBoot,
    timeSynchronized,
    modelFolders,
    disks: disks.flat(),
  };
}

/** What Docker and Podman leave in a container. */
const CONTAINER_MARKS = ["/.dockerenv", "/run/.containerenv"];
/** UEFI's global variable, by its vendor's GUID. */
const SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
/** systemd-timesyncd touches it when the clock is right. Source: systemd-timesyncd.service(8). */
const SYNCHRONIZED = "/run/systemd/timesync/synchronized";
/** Besides the model folders: where logs, caches and temporary files go. */
const PLACES = ["/"];

/** `Uid:` real, effective, saved and file system ids. Source: proc_pid_status(5). */
function parseRoot(status: string): boolean | undefined {
  const found = /^Uid:\s+\d+\s+(\d+)/m.exec(status);
  return found === null ? undefined : found[1] === "0";
}

/** The row `Max open files`; `unlimited` is no number. Source: proc_pid_limits(5). */
export function parseOpenFiles(text: string | undefined): OpenFiles | undefined {
  const found = /^Max open files\s+(\d{1,15}|unlimited)\s+(\d{1,15}|unlimited)/m.exec(text ?? "");
  if (found === null) return undefined;
  const count = (word: string | undefined): number | undefined => (word === "unlimited" ? undefined : Number(word));
  return { soft: count(found[1]), hard: count(found[2]) };
}

/** Four bytes of attributes, then 0 or 1. Source: the kernel's efivarfs document. */
function parseSecureBoot(bytes: Uint8Array | undefined): boolean | undefined {
  return bytes === undefined || bytes.length < 5 ? undefined : bytes[4] === 1;
}

async function accessOf(runner: Runner, path: string): Promise<FolderAccess> {
  return inTime(lookInto(runner, path), LIMIT_MS + 1_000, () => ({ path, access: "hung", stopsAt: undefined }));
}

async function lookInto(runner: Runner, path: string): Promise<FolderAccess> {
  try {
    const names = await runner.listDir(path, { timeoutMs: 3_000 });
    return { path, access: names === undefined ? "absent" : "readable", stopsAt: undefined };
  } catch (error) {
    if (!(error instanceof RunnerError) || error.kind === "aborted") throw error;
    return error.kind === "timeout"
      ? { path, access: "hung", stopsAt: undefined }
      : { path, access: "refused", stopsAt: await firstClosed(runner, path) };
  }
}

/** The topmost folder on the way that may not be read. */
async function firstClosed(runner: Runner, path: string): Promise<string> {
  const parts = path.split("/").filter((part) => part !== "");
  for (let count = 1; count < parts.length; count++) {
    const folder = `/${parts.slice(0, count).join("/")}`;
    try {
      await runner.stat(folder, READ);
    } catch (error) {
      if (error instanceof RunnerError && error.kind === "denied") return folder;
      return path;
    }
  }
  return path;
}

async function spaceOf(runner: Runner, path: string): Promise<readonly Disk[]> {
  const space = await step(`disk behind ${path}`, LIMIT_MS, () => runner.diskSpace(path));
  return space.kind === "read" ? [{ path, space: space.value }] : [];
}
