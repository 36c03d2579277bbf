import { createHash } from "node:crypto";
import { type ByteSource, HeaderProblem } from "./header-problem.ts";
import { GGUF as LIMITS } from "./limits.ts";

/**
 * A window that moves forward over a GGUF header, so that a header of any length costs one mebibyte. Every "n bytes follow" is
 * compared with what is left of the file before anything is done about it. All bytes passed over go into one hash.
 *
 * `need(n)` makes n bytes ready, after which the plain readers take them. Callers ask `has(n)` first: a vocabulary has hundreds of
 * thousands of strings, and an await for each would be most of the work.
 */
export class GgufWindow {
  readonly #source: ByteSource;
  readonly #hash = createHash("sha256");
  #view: DataView = new DataView(new ArrayBuffer(0));
  /** Where the window begins in the file, and the cursor in the window. */
  #start = 0;
  #at = 0;

  constructor(source: ByteSource) {
    this.#source = source;
  }

  get position(): number {
    return this.#start + this.#at;
  }

  get remaining(): number {
    return this.#source.size - this.position;
  }

  has(length: number): boolean {
    return this.#at + length <= this.#view.byteLength;
  }

  /** Makes `length` bytes (at most one window) ready. Throws `HeaderProblem` when the file or the limit ends before them. */
  async need(length: number, what: string): Promise<void> {
    if (this.has(length)) return;
    this.check(length, what);
    this.#passOver();
    const size = Math.min(LIMITS.window_bytes, this.remaining);
    const bytes = await this.#source.read(this.#start, size);
    if (bytes.length < length) throw new HeaderProblem(`cut off at byte ${this.#start + bytes.length} while reading ${what}`, true);
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, size));
  }

  /** Throws `HeaderProblem` unless `length` more bytes fit into the file and into the limit of a header. */
  check(length: number, what: string): void {
    if (length > this.remaining) {
      throw new HeaderProblem(
        `cut off at byte ${this.#source.size} while reading ${what} (${length} bytes from byte ${this.position})`,
        true,
      );
    }
    if (this.position + length > LIMITS.header_max_bytes) {
      throw new HeaderProblem(`the header is longer than ${LIMITS.header_max_bytes} bytes, while reading ${what}`);
    }
  }

  /** Passes over `length` bytes. They are read all the same: the identity of a model is a hash over its whole header. */
  async skip(length: number, what: string): Promise<void> {
    this.check(length, what);
    let left = length;
    while (left > 0) {
      if (!this.has(1)) await this.need(1, what);
      const step = Math.min(left, this.#view.byteLength - this.#at);
      this.#at += step;
      left -= step;
    }
  }

  /** Passes over one text without waiting; false, having done nothing, when it is not whole in the window. */
  skipTextInside(): boolean {
    if (!this.has(8)) return false;
    const at = this.#at;
    const low = this.#view.getUint32(at, true);
    const end = at + 8 + low;
    if (this.#view.getUint32(at + 4, true) !== 0 || end > this.#view.byteLength) return false;
    this.#at = end;
    return true;
  }

  u8(): number {
    return this.#view.getUint8(this.#take(1));
  }
  i8(): number {
    return this.#view.getInt8(this.#take(1));
  }
  u16(): number {
    return this.#view.getUint16(this.#take(2), true);
  }
  i16(): number {
    return this.#view.getInt16(this.#take(2), true);
  }
  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }
  i32(): number {
    return this.#view.getInt32(this.#take(4), true);
  }
  f32(): number {
    return this.#view.getFloat32(this.#take(4), true);
  }
  u64(): bigint {
    return this.#view.getBigUint64(this.#take(8), true);
  }
  i64(): bigint {
    return this.#view.getBigInt64(this.#take(8), true);
  }
  f64(): number {
    return this.#view.getFloat64(this.#take(8), true);
  }
  bytes(length: number): Uint8Array {
    return new Uint8Array(this.#view.buffer, this.#view.byteOffset + this.#take(length), length);
  }

  /** SHA-256 over everything from the first byte to the cursor; ends the window's use. */
  digest(): string {
    this.#passOver();
    return this.#hash.digest("hex");
  }

  #take(length: number): number {
    const at = this.#at;
    this.#at += length;
    return at;
  }

  #passOver(): void {
    this.#hash.update(new Uint8Array(this.#view.buffer, this.#view.byteOffset, this.#at));
    this.#start += this.#at;
    this.#view = new DataView(new ArrayBuffer(0));
    this.#at = 0;
  }
}
