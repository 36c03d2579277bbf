/**
 * YAML that a person or a program wrote, checked against a schema: the quick way when all is well.
 *
 * Bun's own parser takes 0.2 ms where the yaml package, which knows lines and columns, takes 10 ms of a program that ends in 25. So
 * the package is loaded when something does not fit, and when a key may stand twice, which Bun's parser does not mind.
 */
import * as v from "valibot";
import type { Checked } from "./schema-error.ts";

/** The value, or everything that does not fit, with line and column. Never throws on any text. */
export async function checkYamlText<T>(schema: v.GenericSchema<unknown, T>, text: string): Promise<Checked<T>> {
  const quick = quickly(schema, text);
  return quick ?? (await import("./schema-error.ts")).checkYaml(schema, text);
}

/** The value, or a `UserError` with every problem and its place. */
export async function parseYamlText<T>(schema: v.GenericSchema<unknown, T>, text: string, file: string, fix: string): Promise<T> {
  const quick = quickly(schema, text);
  return quick?.value ?? (await import("./schema-error.ts")).parseYamlFile(schema, text, file, fix);
}

function quickly<T>(schema: v.GenericSchema<unknown, T>, text: string): { readonly kind: "ok"; readonly value: T } | undefined {
  if (mayRepeatKeys(text) || /(?:^|\s)[&*]\S/.test(text)) return undefined;
  try {
    const checked = v.safeParse(schema, Bun.YAML.parse(text) ?? {});
    return checked.success ? { kind: "ok", value: checked.output } : undefined;
  } catch {
    return undefined;
  }
}

/** Whether some mapping may have a key twice. It may say yes wrongly, which costs the quick way, and never no for block mappings. */
export function mayRepeatKeys(text: string): boolean {
  const open = new Map<number, Set<string>>();
  for (const line of text.split("\n")) {
    const [, blanks = "", dashes = "", rest = ""] = /^( *)((?:- +)*)(.*)$/.exec(line) ?? [];
    if (rest === "" || rest.startsWith("#")) continue;
    const column = blanks.length + dashes.length;
    // A line closes every mapping that is further in; a dash begins new ones from its own column on.
    for (const at of open.keys()) if (dashes === "" ? at > column : at > blanks.length) open.delete(at);
    const key = /^("[^"]*"|'[^']*'|[^\s#:{}[\],]+)\s*:(?:\s|$)/.exec(rest)?.[1];
    const inFlow = [...rest.matchAll(/[{,]\s*["']?([\w.-]+)["']?\s*:/g)].map((found) => found[1]);
    if (new Set(inFlow).size < inFlow.length) return true;
    if (key === undefined) continue;
    const keys = open.get(column) ?? new Set();
    const plain = key.replace(/^["']|["']$/g, "");
    if (keys.has(plain)) return true;
    open.set(column, keys.add(plain));
  }
  return false;
}
