/** Temporary folders and small trees for tests. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export interface TemporaryFolder extends Disposable {
  readonly path: string;
}

/** `using folder = temporaryFolder()`: removed at the end of the block. */
export function temporaryFolder(): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), "llmgw-test-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Writes files and links below a folder: text is a file's content, `{ link }` a link's target. Returns the folder. */
export function layOut(folder: string, tree: Readonly<Record<string, string | { readonly link: string }>>): string {
  for (const [path, content] of Object.entries(tree)) {
    const at = join(folder, path);
    mkdirSync(dirname(at), { recursive: true });
    if (typeof content === "string") writeFileSync(at, content);
    else symlinkSync(content.link, at);
  }
  return folder;
}
