/** Writes a tar archive (POSIX ustar, GNU's form for names over 100 bytes): Bun.Archive knows no links, and recorded machines are made of them. */

export interface TarEntry {
  readonly path: string;
  readonly content: Uint8Array | { readonly link: string };
}

const BLOCK = 512;
const MAX_NAME = 100;
const encoder = new TextEncoder();

/** Every entry gets the same time (seconds since 1970), owner 0, and rights that let its reader read. */
export function renderTar(entries: readonly TarEntry[], mtime: number): Uint8Array {
  const blocks = entries.flatMap(({ path, content }) =>
    content instanceof Uint8Array
      ? [...longName("L", path, mtime), header("0", path, "", content.length, mtime), ...padded(content)]
      : [...longName("K", content.link, mtime), ...longName("L", path, mtime), header("2", path, content.link, 0, mtime)],
  );
  return Uint8Array.from(Buffer.concat([...blocks, new Uint8Array(2 * BLOCK)]));
}

/** An entry of its own ahead of one whose name, or link target, is too long for the header. */
function longName(type: "L" | "K", name: string, mtime: number): readonly Uint8Array[] {
  const bytes = encoder.encode(`${name}\0`);
  return bytes.length <= MAX_NAME ? [] : [header(type, "././@LongLink", "", bytes.length, mtime), ...padded(bytes)];
}

function padded(bytes: Uint8Array): readonly Uint8Array[] {
  const rest = bytes.length % BLOCK;
  return rest === 0 ? [bytes] : [bytes, new Uint8Array(BLOCK - rest)];
}

function header(type: string, name: string, link: string, size: number, mtime: number): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const put = (at: number, text: string, room: number): void => block.set(encoder.encode(text).subarray(0, room), at);
  const octal = (value: number, digits: number): string => `${Math.floor(value).toString(8).padStart(digits, "0")}\0`;
  put(0, name, MAX_NAME);
  put(100, octal(type === "2" ? 0o777 : 0o644, 7), 8);
  put(108, octal(0, 7), 8);
  put(116, octal(0, 7), 8);
  put(124, octal(size, 11), 12);
  put(136, octal(Math.max(0, mtime), 11), 12);
  // The sum is counted over the header with blanks in its own place.
  put(148, " ".repeat(8), 8);
  put(156, type, 1);
  put(157, link, MAX_NAME);
  put(257, "ustar\u000000", 8);
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(148, `${sum.toString(8).padStart(6, "0")}\0 `, 8);
  return block;
}
