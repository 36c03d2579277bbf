/** Turns what a schema refuses into one message per problem: path, found, expected, and in YAML the line and column. */
import * as v from "valibot";
import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";
import { schemaAt, schemaKeys } from "./schema-shape.ts";
import { suggest } from "./suggest.ts";
import { UserError } from "./user-error.ts";

/** One thing that does not fit. `line` and `column` count from 1. */
export interface Misfit {
  readonly path: string;
  readonly message: string;
  readonly line: number | undefined;
  readonly column: number | undefined;
  /** Keys from the root, for those who want to leave an unknown key out and go on. */
  readonly keys: readonly (string | number)[];
  readonly unknownKey: boolean;
}

export type Checked<T> =
  | { readonly kind: "ok"; readonly value: T }
  | { readonly kind: "misfits"; readonly misfits: readonly Misfit[]; readonly found: unknown };

type AnySchema<T> = v.GenericSchema<unknown, T>;

/** Parses YAML text and checks it against a schema. Never throws on any text. Aliases are not expanded beyond a small number. */
export function checkYaml<T>(schema: AnySchema<T>, text: string): Checked<T> {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const broken = document.errors[0];
  if (broken !== undefined) {
    const at = lines.linePos(broken.pos[0]);
    return {
      kind: "misfits",
      misfits: [{ path: "", message: broken.message, line: at.line, column: at.col, keys: [], unknownKey: false }],
      found: undefined,
    };
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 }) ?? {};
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { kind: "misfits", misfits: [{ path: "", message, line: 1, column: 1, keys: [], unknownKey: false }], found: undefined };
  }
  return checkValue(schema, value, (keys) => positionOf(document, lines, keys));
}

/** Checks a value that is already parsed. `place` gives line and column of a path, where there is a text behind it. */
export function checkValue<T>(
  schema: AnySchema<T>,
  value: unknown,
  place: (keys: readonly (string | number)[]) => { line: number; col: number } | undefined = () => undefined,
): Checked<T> {
  const result = v.safeParse(schema, value);
  if (result.success) return { kind: "ok", value: result.output };
  const misfits = result.issues.flatMap((issue) => misfitsOf(schema, issue, place));
  return { kind: "misfits", misfits: misfits.sort(byPlace), found: value };
}

function byPlace(a: Misfit, b: Misfit): number {
  return (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0);
}

/** Parses YAML that a person wrote, or throws one `UserError` with every problem and its place. */
export function parseYamlFile<T>(schema: AnySchema<T>, text: string, file: string, fix: string): T {
  const checked = checkYaml(schema, text);
  if (checked.kind === "ok") return checked.value;
  throw new UserError({ what: `${file} does not fit`, why: checked.misfits.map((m) => renderMisfit(m, file)).join("; "), fix });
}

/** `agent.yaml:4:3: unknown key "liten", did you mean "listen"?` */
export function renderMisfit(misfit: Misfit, file: string): string {
  const place = misfit.line === undefined ? file : `${file}:${misfit.line}:${misfit.column ?? 1}`;
  const path = misfit.path === "" || misfit.unknownKey ? "" : `${misfit.path}: `;
  return `${place}: ${path}${misfit.message}`;
}

function misfitsOf(
  schema: v.GenericSchema,
  issue: v.BaseIssue<unknown>,
  place: (keys: readonly (string | number)[]) => { line: number; col: number } | undefined,
): readonly Misfit[] {
  const path = issue.path ?? [];
  const keys = path.map((item) => (typeof item.key === "number" ? item.key : String(item.key)));
  const parentKeys = keys.slice(0, -1);
  const parent: unknown = path.at(-1)?.input;
  const misfit = (at: readonly (string | number)[], message: string, unknownKey = false): Misfit => {
    const found = place(at);
    return { path: pathText(at), message, line: found?.line, column: found?.col, keys: at, unknownKey };
  };
  if (issue.type === "strict_object" && issue.expected === "never") {
    // valibot takes a list for an object whose keys are its indexes.
    if (Array.isArray(parent)) return [misfit(parentKeys, "expected Object, found Array")];
    const known = knownKeys(schema, parentKeys);
    // valibot names only the first of several unknown keys.
    return unknownOf(parent, known, String(keys.at(-1) ?? "")).map((key) =>
      misfit([...parentKeys, key], unknownKeyMessage(key, known ?? []), true),
    );
  }
  if (issue.type === "strict_object" && issue.received === "undefined") {
    // Said of the list as a whole, see above.
    if (Array.isArray(parent) && parent.length > 0) return [];
    return [misfit(keys, `the key "${String(keys.at(-1) ?? "")}" is missing`)];
  }
  return [misfit(keys, `expected ${expectedOf(issue)}, found ${issue.received}`)];
}

function pathText(keys: readonly (string | number)[]): string {
  return keys.map((key, at) => (typeof key === "number" ? `[${key}]` : at === 0 ? key : `.${key}`)).join("");
}

function unknownOf(parent: unknown, known: readonly string[] | undefined, first: string): readonly string[] {
  if (known === undefined || typeof parent !== "object" || parent === null) return [first];
  return Object.keys(parent).filter((key) => !known.includes(key));
}

function expectedOf(issue: v.BaseIssue<unknown>): string {
  if (issue.type === "regex" || issue.type === "check" || issue.type === "min_length") return issue.message;
  if (issue.type === "integer") return "a whole number";
  return issue.expected ?? issue.message;
}

/** `undefined` where the way through the schema cannot be followed, such as behind a union. */
function knownKeys(schema: v.GenericSchema, keys: readonly (string | number)[]): readonly string[] | undefined {
  const at = schemaAt(schema, keys);
  return at === undefined ? undefined : schemaKeys(at)?.map((entry) => entry.name);
}

function unknownKeyMessage(key: string, known: readonly string[]): string {
  const near = suggest(key, known);
  return near === undefined ? `unknown key "${key}" (known: ${known.join(", ")})` : `unknown key "${key}", did you mean "${near}"?`;
}

function positionOf(
  document: Document.Parsed,
  lines: LineCounter,
  keys: readonly (string | number)[],
): { line: number; col: number } | undefined {
  for (let length = keys.length; length >= 0; length--) {
    const offset = offsetOf(document, keys.slice(0, length));
    if (offset !== undefined) return lines.linePos(offset);
  }
  return undefined;
}

/** Where the key of a pair stands, or the item of a list. */
function offsetOf(document: Document.Parsed, keys: readonly (string | number)[]): number | undefined {
  if (keys.length === 0) return document.contents?.range?.[0];
  const parent = keys.length === 1 ? document.contents : document.getIn(keys.slice(0, -1), true);
  const last = keys.at(-1);
  if (isMap(parent)) {
    const pair = parent.items.find((item) => isScalar(item.key) && String(item.key.value) === String(last));
    return isNode(pair?.key) ? pair.key.range?.[0] : undefined;
  }
  const node = document.getIn(keys, true);
  return isNode(node) ? node.range?.[0] : undefined;
}

/** The value without the keys that the schema does not know, when those are all that is wrong; `undefined` otherwise. */
export function withoutUnknownKeys<T>(schema: AnySchema<T>, checked: Checked<T>): T | undefined {
  if (checked.kind === "ok") return checked.value;
  if (!checked.misfits.every((misfit) => misfit.unknownKey)) return undefined;
  const trimmed: unknown = structuredClone(checked.found);
  for (const misfit of checked.misfits) {
    const parent = misfit.keys
      .slice(0, -1)
      .reduce<unknown>((at, key) => (typeof at === "object" && at !== null ? Reflect.get(at, key) : undefined), trimmed);
    if (typeof parent === "object" && parent !== null) Reflect.deleteProperty(parent, misfit.keys.at(-1) ?? "");
  }
  const again = checkValue(schema, trimmed);
  return again.kind === "ok" ? again.value : undefined;
}
