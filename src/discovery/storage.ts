/** The disks behind the model folders. */
import type { Storage } from "../domain/inventory.ts";
import { compact } from "../lib/compact.ts";
import { type Runner, RunnerError } from "../platform/runner.ts";

const BYTES_PER_MB = 1024 * 1024;
/** A folder on a network file system whose server is away blocks; the others must not wait for it. */
const TIMEOUT_MS = 2_000;

export interface StorageReport {
  readonly storage: readonly Storage[];
  readonly warnings: readonly string[];
}

/**
 * Size and free space (to an unprivileged process, MiB) behind each folder that exists, in the order given. Two folders on one disk are
 * both listed; a folder that does not exist is left out. One that cannot be looked at costs a warning.
 */
export async function discoverStorage(runner: Runner, paths: readonly string[]): Promise<StorageReport> {
  const found = await Promise.all([...new Set(paths)].map((path) => behind(runner, path)));
  return { storage: found.flatMap((one) => one.storage), warnings: found.flatMap((one) => one.warnings) };
}

async function behind(runner: Runner, path: string): Promise<StorageReport> {
  try {
    const stat = await runner.stat(path, { timeoutMs: TIMEOUT_MS });
    if (stat?.kind !== "directory") return { storage: [], warnings: [] };
  } catch (error) {
    return { storage: [], warnings: [failed(error)] };
  }
  try {
    const space = await runner.diskSpace(path);
    return { storage: [compact({ path, total_mb: megabytes(space?.total_bytes), free_mb: megabytes(space?.free_bytes) })], warnings: [] };
  } catch (error) {
    return { storage: [{ path }], warnings: [failed(error)] };
  }
}

function failed(error: unknown): string {
  if (!(error instanceof RunnerError) || error.kind === "aborted") throw error;
  return `the disk behind a model folder could not be looked at: ${error.message}`;
}

function megabytes(bytes: number | undefined): number | undefined {
  return bytes !== undefined && Number.isFinite(bytes) && bytes >= 0 ? Math.floor(bytes / BYTES_PER_MB) : undefined;
}
