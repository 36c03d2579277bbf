/**
 * A JSON reader for hostile files. `JSON.parse` cannot be told to refuse a key that occurs twice (two readers of one header would
 * then see two models), has no limit of nesting, and refuses `Infinity`, which Python writes into real configs (Mamba's
 * `time_step_limit`). Objects have no prototype, so `__proto__` is a key like any other.
 */
import { MAX_JSON_DEPTH } from "./limits.ts";

export interface JsonOptions {
  /** What a repeated key means. Headers refuse; configs do as Python does: the last one counts. */
  readonly repeated: "refuse" | "last";
  /** Accept NaN, Infinity and -Infinity. */
  readonly nonFinite?: boolean;
}

/** Thrown for text that is not JSON in this sense; the message says what and at which character. */
export class JsonProblem extends Error {
  override readonly name = "JsonProblem";
}

/** Parses one JSON text. Throws `JsonProblem`. */
export function parseJson(text: string, options: JsonOptions): unknown {
  const reader = new JsonReader(text, options);
  const value = reader.value(0);
  reader.end();
  return value;
}

/**
 * Parses a JSON object and hands over its entries one by one, so that a header with half a million tensors is never held twice.
 * Repeated keys are the callback's to refuse. Throws `JsonProblem`.
 */
export function parseJsonEntries(text: string, options: JsonOptions, onEntry: (key: string, value: unknown) => void): void {
  const reader = new JsonReader(text, options);
  reader.entries(0, (key) => onEntry(key, reader.value(1)));
  reader.end();
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WORDS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["true", true],
  ["false", false],
  ["null", null],
]);
const NON_FINITE: ReadonlyMap<string, number> = new Map([
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
]);

class JsonReader {
  readonly #text: string;
  readonly #options: JsonOptions;
  #at = 0;

  constructor(text: string, options: JsonOptions) {
    this.#text = text;
    this.#options = options;
  }

  value(depth: number): unknown {
    this.#space();
    switch (this.#text[this.#at]) {
      case "{":
        return this.#object(depth);
      case "[":
        return this.#array(depth);
      case '"':
        return this.#string();
      default:
        return this.#atom();
    }
  }

  entries(depth: number, onKey: (key: string) => void): void {
    if (depth >= MAX_JSON_DEPTH) throw this.#problem(`nested deeper than ${MAX_JSON_DEPTH}`);
    this.#expect("{");
    if (this.#takes("}")) return;
    do {
      this.#space();
      const key = this.#string();
      this.#expect(":");
      onKey(key);
    } while (this.#takes(","));
    this.#expect("}");
  }

  end(): void {
    this.#space();
    if (this.#at < this.#text.length) throw this.#problem("more text after the value");
  }

  #object(depth: number): unknown {
    const object: Record<string, unknown> = Object.create(null);
    this.entries(depth, (key) => {
      if (this.#options.repeated === "refuse" && key in object) throw this.#problem("a key occurs twice");
      object[key] = this.value(depth + 1);
    });
    return object;
  }

  #array(depth: number): unknown {
    if (depth >= MAX_JSON_DEPTH) throw this.#problem(`nested deeper than ${MAX_JSON_DEPTH}`);
    this.#expect("[");
    const items: unknown[] = [];
    if (this.#takes("]")) return items;
    do items.push(this.value(depth + 1));
    while (this.#takes(","));
    this.#expect("]");
    return items;
  }

  #string(): string {
    if (this.#text[this.#at] !== '"') throw this.#problem("a string was expected");
    const start = this.#at;
    let escaped = false;
    for (let at = start + 1; at < this.#text.length; at++) {
      const code = this.#text.charCodeAt(at);
      if (code === 0x5c) {
        escaped = true;
        at++;
      } else if (code === 0x22) {
        this.#at = at + 1;
        return escaped ? this.#unescape(start, at + 1) : this.#text.slice(start + 1, at);
      } else if (code < 0x20) throw this.#problem("a control character in a string");
    }
    throw this.#problem("a string does not end");
  }

  #unescape(start: number, end: number): string {
    try {
      return String(JSON.parse(this.#text.slice(start, end)));
    } catch {
      throw this.#problem("a bad escape in a string");
    }
  }

  #atom(): unknown {
    NUMBER.lastIndex = this.#at;
    const digits = NUMBER.exec(this.#text)?.[0];
    if (digits !== undefined) {
      this.#at += digits.length;
      return Number(digits);
    }
    for (const [word, value] of this.#options.nonFinite === true ? [...WORDS, ...NON_FINITE] : WORDS) {
      if (this.#text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return value;
      }
    }
    throw this.#problem(this.#at < this.#text.length ? "a value was expected" : "the text ends too early");
  }

  #takes(char: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  #expect(char: string): void {
    if (!this.#takes(char)) throw this.#problem(`"${char}" was expected`);
  }

  #space(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.#at++;
    }
  }

  #problem(what: string): JsonProblem {
    return new JsonProblem(`${what} at character ${this.#at}`);
  }
}
