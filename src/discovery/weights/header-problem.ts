/** Bytes of one file, read on demand. `read` may return fewer bytes than asked for when the file has shrunk. */
export interface ByteSource {
  readonly size: number;
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** A header, or why there is none. `cutOff` when the file ends too early, which a running download also looks like. */
export type HeaderVerdict<T> =
  | { readonly kind: "ok"; readonly header: T }
  | { readonly kind: "bad"; readonly problem: string; readonly cutOff: boolean };

/** Thrown inside the parsers and nowhere else; `verdictOf` turns it into a value. */
export class HeaderProblem extends Error {
  override readonly name = "HeaderProblem";
  readonly cutOff: boolean;

  constructor(message: string, cutOff = false) {
    super(message);
    this.cutOff = cutOff;
  }
}

/** Runs a parser; its `HeaderProblem` becomes a verdict. What a failing `read` throws passes through. */
export async function verdictOf<T>(parse: () => T | Promise<T>): Promise<HeaderVerdict<T>> {
  try {
    return { kind: "ok", header: await parse() };
  } catch (thrown) {
    if (thrown instanceof HeaderProblem) return { kind: "bad", problem: thrown.message, cutOff: thrown.cutOff };
    throw thrown;
  }
}
