/** Names from disk on a terminal. */

/** So many names of a list are shown. */
const MAX_NAMES = 8;

/**
 * A name from disk, safe to show on one line of a terminal: control, format and bidirectional characters, lone surrogates and line
 * separators as `\u{…}`; at most 200 characters. Model folders come from strangers, and a name may hold escape sequences.
 */
export function printable(name: string): string {
  const shown = name.length > 200 ? `${name.slice(0, 199)}…` : name;
  return shown.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

/** `a, b, c and 4 more`. */
export function listed(names: readonly string[]): string {
  const shown = names.slice(0, MAX_NAMES).map(printable).join(", ");
  return names.length > MAX_NAMES ? `${shown} and ${names.length - MAX_NAMES} more` : shown;
}
