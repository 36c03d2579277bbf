/** Names from disk on a terminal. */

/** So many names of a list are shown. */
const MAX_NAMES = 8;

/**
 * A name from disk, safe to show on one line of a terminal: control, format and bidirectional characters, lone surrogates and line
 * separators as `\u{…}`; at most 200 characters. Model folders come from strangers, and a name may hold escape sequences.
 */
export function printable(name: string): string {
  return printableWhole(name.length > 200 ? `${name.slice(0, 199)}…` : name);
}

/** The same for a text of any length. */
export function printableWhole(text: string): string {
  // Nearly every text is plain, and a list of a thousand nodes has ten thousand of them.
  if (!/[^ -~]/.test(text)) return text;
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

/** `a, b, c and 4 more`. */
export function listed(names: readonly string[]): string {
  const shown = names.slice(0, MAX_NAMES).map(printable).join(", ");
  return names.length > MAX_NAMES ? `${shown} and ${names.length - MAX_NAMES} more` : shown;
}

/** Whatever another machine sent, with every text in it made printable and none cut: keys, which are ours, stay. */
export function printableAll<T>(value: T): T {
  // Nearly always there is nothing to do, and looking costs a fraction of making all of it anew.
  if (isPrintable(value)) return value;
  // Texts become texts, lists lists and objects objects of the same keys, so the shape is that of T.
  return printableValue(value) as T;
}

function isPrintable(value: unknown): boolean {
  if (typeof value === "string") return !/[^ -~]/.test(value);
  if (typeof value !== "object" || value === null) return true;
  for (const inner of Array.isArray(value) ? value : Object.values(value)) if (!isPrintable(inner)) return false;
  return true;
}

function printableValue(value: unknown): unknown {
  if (typeof value === "string") return printableWhole(value);
  if (Array.isArray(value)) return value.map(printableValue);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, printableValue(inner)]));
}
