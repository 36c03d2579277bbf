/**
 * Values as nvidia-smi writes them: text with a unit, or one of the many spellings of "no value". What cannot be read is `undefined`,
 * never 0. Spellings and units: drivers 352 to 610, XML, CSV and `-q`.
 */
import { printable } from "../../lib/printable.ts";

const NO_VALUE =
  /^(?:|\[?(?:n\/a|not supported|not available|not found|none|unknown|unknown error|insufficient permissions|gpu is lost|gpu requires reset|err!|requested functionality has been deprecated|system is not in ready state|function not found|no permission)\.?\]?)$/i;

/** Words that mean that something is wrong with the card, not merely that a value does not exist. */
const ERROR_TEXT = /^\[?(unknown error|gpu requires reset|gpu is lost|system is not in ready state|err!)\.?\]?$/i;

/** A part of each of them as the tool spells it: a text without any of these has no error in it. */
export const ERROR_HINTS = ["nknown Error", "requires reset", "is lost", "ready state", "ERR!"] as const;

/** The text without blanks around it; `undefined` for every spelling of "no value". */
export function parseWord(text: string | undefined): string | undefined {
  const word = text?.trim();
  return word === undefined || NO_VALUE.test(word) ? undefined : word;
}

const NAMED: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

/**
 * A name that people or programs chose (a card, a process with its whole command line): the five entities of XML and numeric ones
 * decoded, once; kept whole; characters that a terminal obeys as `\\u{…}`.
 */
export function parseName(text: string | undefined): string | undefined {
  const decoded = parseWord(text)?.replace(/&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9a-f]{1,6}));/gi, (whole, name, decimal, hex) => {
    if (name !== undefined) return NAMED[name] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return code > 0x10ffff ? whole : String.fromCodePoint(code);
  });
  // In pieces, because printable cuts what is longer than a line.
  return decoded?.replace(/.{1,100}/gsu, (piece) => printable(piece));
}

/** An error that the driver gives in place of a value, in its own words. */
export function errorText(text: string): string | undefined {
  return ERROR_TEXT.exec(text.trim())?.[1];
}

export function isLost(text: string): boolean {
  return /^\[?gpu is lost\.?\]?$/i.test(text.trim());
}

/** `40960 MiB`, `40960MiB`, ancient `MB` → MiB. */
export function parseMib(text: string | undefined): number | undefined {
  return whole(text, /^(\d+)\s*(?:MiB|MB)$/i);
}

/** `25.58 W` → watts. */
export function parseWatts(text: string | undefined): number | undefined {
  const found = /^(\d{1,6}(?:\.\d{1,3})?)\s*W$/i.exec(parseWord(text) ?? "");
  return found === null ? undefined : Number(found[1]);
}

/** `41 C` → degrees Celsius; below zero is possible. */
export function parseCelsius(text: string | undefined): number | undefined {
  const found = /^(-?\d{1,3})\s*C$/i.exec(parseWord(text) ?? "");
  return found === null ? undefined : Number(found[1]);
}

/** `0 %` → percent, 0 to 100: anything above is no utilisation. */
export function parsePercent(text: string | undefined): number | undefined {
  const percent = whole(text, /^(\d{1,3})\s*%$/);
  return percent === undefined || percent > 100 ? undefined : percent;
}

/** A plain count. Absurd placeholders (2^63 and the like) are no value. */
export function parseCount(text: string | undefined): number | undefined {
  return whole(text, /^(\d+)$/);
}

/** A GPU or compute instance id: 0xFFFFFFFF is the driver's word for "not MIG". */
export function parseInstanceId(text: string | undefined): number | undefined {
  const id = parseCount(text);
  return id === undefined || id >= 0xffff_ffff ? undefined : id;
}

/** `16x` → lanes. */
export function parseLanes(text: string | undefined): number | undefined {
  return whole(text, /^(\d{1,2})x$/i);
}

/** Yes/No, Active/Not Active, True/False. */
export function parseFlag(text: string | undefined): boolean | undefined {
  const word = parseWord(text)?.toLowerCase();
  if (word === "yes" || word === "active" || word === "true") return true;
  return word === "no" || word === "not active" || word === "false" ? false : undefined;
}

/** Enabled/Disabled. */
export function parseSwitch(text: string | undefined): "enabled" | "disabled" | undefined {
  const word = parseWord(text)?.toLowerCase();
  return word === "enabled" || word === "disabled" ? word : undefined;
}

/** `580.65.06`, or `610.57.04 [Deprecated; …]` → the number. */
export function parseVersion(text: string | undefined): string | undefined {
  return /^\d{1,5}(?:\.\d{1,5}){1,3}(?=\s|$)/.exec(parseWord(text) ?? "")?.[0];
}

function whole(text: string | undefined, pattern: RegExp): number | undefined {
  const found = pattern.exec(parseWord(text) ?? "");
  const value = found === null ? Number.NaN : Number(found[1]);
  return Number.isSafeInteger(value) ? value : undefined;
}
