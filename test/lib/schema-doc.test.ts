import { expect, test } from "bun:test";
import * as v from "valibot";
import { renderSchemaPage } from "../../src/lib/schema-doc.ts";

const Schema = v.strictObject({
  listen: v.pipe(v.string(), v.description("Where to | listen")),
  heartbeat_s: v.optional(v.pipe(v.number(), v.description("Time between reports,\nseconds")), 10),
  mode: v.optional(v.picklist(["fast", "safe"])),
  discovery: v.optional(v.pipe(v.strictObject({ skip: v.optional(v.array(v.string())) }), v.description("How"))),
  engines: v.array(v.strictObject({ name: v.string(), nested: v.optional(v.strictObject({ deep: v.boolean() })) })),
  labels: v.optional(v.record(v.string(), v.strictObject({ weight: v.number() }))),
});

test("one row per key, nested ones with their way, bars escaped, lines joined", () => {
  expect(renderSchemaPage(Schema, { title: "T", intro: "I.", outro: "O." })).toBe(`# T

I.

| key | value | needed | meaning |
| --- | --- | --- | --- |
| \`listen\` | string | yes | Where to \\| listen |
| \`heartbeat_s\` | number | no | Time between reports, seconds |
| \`mode\` | one of: fast, safe | no |  |
| \`discovery\` | object | no | How |
| \`discovery.skip\` | list of string | no |  |
| \`engines\` | list of object | yes |  |
| \`engines[].name\` | string | yes |  |
| \`engines[].nested\` | object | no |  |
| \`engines[].nested.deep\` | boolean | yes |  |
| \`labels\` | map of object | no |  |
| \`labels[].weight\` | number | yes |  |

O.
`);
});

test("without an outro the page ends with the table", () => {
  expect(renderSchemaPage(v.strictObject({ a: v.string() }), { title: "T", intro: "I." })).toEndWith("| `a` | string | yes |  |\n");
});

test("a schema that is no object has no rows", () => {
  expect(renderSchemaPage(v.string(), { title: "T", intro: "I." })).toEndWith("| --- | --- | --- | --- |\n");
});
