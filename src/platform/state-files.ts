/**
 * Files that survive us: written whole or not at all. A reader sees the old content or the new one, also after a crash of the machine.
 */
import { chmod, lstat, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes beside the file, brings it to the disk, and puts it in its place. Throws what the system said, with the path in its message. */
export async function writeWholeFile(path: string, content: string | Uint8Array, options: { readonly mode: number }): Promise<void> {
  const beside = `${path}.${process.pid}.tmp`;
  try {
    const file = await open(beside, "w", options.mode);
    try {
      // The umask may have taken rights away, and an old temporary file has rights of its own.
      await file.chmod(options.mode);
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true }).catch(() => undefined);
    throw error;
  }
  await syncFolder(dirname(path));
}

/** Without it the new name may be lost when the machine crashes, though the content is on the disk. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** `undefined` when there is no such file; throws what the system said otherwise. */
export async function readWholeFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Whether anything has this name, a link that leads nowhere too. Throws what the system said when it does not tell. */
export async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}

/** Reads a file and removes it. */
export async function takeFile(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } finally {
    await rm(path, { force: true });
  }
}

/** Makes a folder, and those above it, that only its owner may enter. One that is there keeps its content and loses the rights of others. */
export async function makePrivateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const there = await stat(path);
  if (!there.isDirectory()) throw Object.assign(new Error(`ENOTDIR: not a folder, '${path}'`), { code: "ENOTDIR" });
  if ((there.mode & 0o077) !== 0) await chmod(path, 0o700);
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
