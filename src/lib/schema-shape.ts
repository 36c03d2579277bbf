/** Looks inside a valibot schema: what its keys are and what is said of them. For messages and for the generated reference pages. */
import type * as v from "valibot";

/** One key of an object schema. */
export interface SchemaKey {
  readonly name: string;
  readonly schema: v.GenericSchema;
  readonly optional: boolean;
  readonly fallback: unknown;
}

function part(schema: unknown, key: string): unknown {
  return typeof schema === "object" && schema !== null && key in schema ? Reflect.get(schema, key) : undefined;
}

function isSchema(value: unknown): value is v.GenericSchema {
  return part(value, "kind") === "schema";
}

/** The schema inside `optional`, `nullable` and the like; itself otherwise. */
export function unwrapSchema(schema: v.GenericSchema): v.GenericSchema {
  const wrapped = part(schema, "wrapped");
  return isSchema(wrapped) ? unwrapSchema(wrapped) : schema;
}

/** Keys of an object schema in their order, `undefined` for any other schema. */
export function schemaKeys(schema: v.GenericSchema): readonly SchemaKey[] | undefined {
  const entries = part(unwrapSchema(schema), "entries");
  if (typeof entries !== "object" || entries === null) return undefined;
  return Object.entries(entries).flatMap(([name, entry]) =>
    isSchema(entry) ? [{ name, schema: entry, optional: part(entry, "type") === "optional", fallback: part(entry, "default") }] : [],
  );
}

/** The schema of what lists and records hold. */
export function itemSchema(schema: v.GenericSchema): v.GenericSchema | undefined {
  const inner = unwrapSchema(schema);
  const item = part(inner, "item") ?? (part(inner, "type") === "record" ? part(inner, "value") : undefined);
  return isSchema(item) ? item : undefined;
}

/** The schema at a path of keys and indexes, as far as it can be followed. */
export function schemaAt(schema: v.GenericSchema, keys: readonly (string | number)[]): v.GenericSchema | undefined {
  let at: v.GenericSchema | undefined = schema;
  for (const key of keys) {
    if (at === undefined) return undefined;
    at = schemaKeys(at)?.find((entry) => entry.name === key)?.schema ?? itemSchema(at);
  }
  return at;
}

/** What `v.description` says of a schema or of what it wraps. */
export function schemaDescription(schema: v.GenericSchema): string | undefined {
  const pipe = part(schema, "pipe");
  if (Array.isArray(pipe)) {
    for (const step of pipe) if (part(step, "type") === "description") return String(part(step, "description"));
  }
  const wrapped = part(schema, "wrapped");
  return isSchema(wrapped) ? schemaDescription(wrapped) : undefined;
}

/** The kind of value in a word or two: `string`, `number`, `list of string`, `one of: a, b`. */
export function schemaTypeWords(schema: v.GenericSchema): string {
  const inner = unwrapSchema(schema);
  const type = String(part(inner, "type"));
  const options = part(inner, "options");
  if (type === "picklist" && Array.isArray(options)) return `one of: ${options.map(String).join(", ")}`;
  const item = itemSchema(inner);
  if (type === "array") return `list of ${item === undefined ? "anything" : schemaTypeWords(item)}`;
  if (type === "record") return `map of ${item === undefined ? "anything" : schemaTypeWords(item)}`;
  if (type === "strict_object" || type === "object") return "object";
  return type;
}
