/** Reference pages made from schemas: the schema is the manual. */
import type * as v from "valibot";
import { itemSchema, schemaDescription, schemaKeys, schemaTypeWords, unwrapSchema } from "./schema-shape.ts";

export interface PageOptions {
  readonly title: string;
  readonly intro: string;
  /** Put at the end, such as an example. */
  readonly outro?: string;
}

/** A Markdown page with one table row per key, nested keys written `parent.key` and `list[].key`. Ends with a newline. */
export function renderSchemaPage(schema: v.GenericSchema, options: PageOptions): string {
  const rows = keyRows(schema, "");
  const table = [
    "| key | value | needed | meaning |",
    "| --- | --- | --- | --- |",
    ...rows.map((row) => `| ${row.map(cell).join(" | ")} |`),
  ];
  return [`# ${options.title}`, options.intro, table.join("\n"), ...(options.outro === undefined ? [] : [options.outro])]
    .join("\n\n")
    .concat("\n");
}

function keyRows(schema: v.GenericSchema, prefix: string): readonly (readonly string[])[] {
  return (schemaKeys(schema) ?? []).flatMap((key) => {
    const path = `${prefix}${key.name}`;
    const row = [`\`${path}\``, schemaTypeWords(key.schema), key.optional ? "no" : "yes", schemaDescription(key.schema) ?? ""];
    const inner = unwrapSchema(key.schema);
    const item = itemSchema(inner);
    const nested =
      schemaKeys(inner) !== undefined
        ? keyRows(inner, `${path}.`)
        : item !== undefined && schemaKeys(item) !== undefined
          ? keyRows(item, `${path}[].`)
          : [];
    return [row, ...nested];
  });
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
