/** The generated pages of docs/reference/: `bun test/reference-pages.ts` rewrites them, docs.test.ts fails when one is stale. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AgentConfig } from "../src/domain/agent-config.ts";
import { Inventory } from "../src/domain/inventory.ts";
import { renderSchemaPage } from "../src/lib/schema-doc.ts";
import { MachineFile } from "../src/platform/machine-file.ts";

export const REFERENCE_FOLDER = join(import.meta.dir, "../docs/reference");

/** File name to text. */
export function referencePages(): ReadonlyMap<string, string> {
  return new Map([
    [
      "agent-yaml.md",
      renderSchemaPage(AgentConfig, {
        title: "agent.yaml",
        intro:
          "The configuration of one node, at `/etc/llmgw/agent.yaml`. Every key may be left out, and so may the file. Made from the schema in `src/domain/agent-config.ts`.",
        outro: [
          "```yaml",
          "fabrics:",
          "  - name: rail0",
          "    adapters: [mlx5_0]",
          "  - name: rail1",
          '    adapters: ["0000:1a:00.0"]',
          "discovery:",
          '  skip_gpus: ["7"]',
          "model_dirs: [/data/models]",
          "```",
        ].join("\n"),
      }),
    ],
    [
      "machine-yaml.md",
      renderSchemaPage(MachineFile, {
        title: "machine.yaml",
        intro:
          "The table of contents of a recorded machine; see [recorded machines](../recorded-machines.md). Made from the schema in `src/platform/machine-file.ts`.",
      }),
    ],
    [
      "inventory-json.md",
      renderSchemaPage(Inventory, {
        title: "inventory --json",
        intro:
          "Sizes ending in `_mb` are MiB, as nvidia-smi counts. A key is absent where the hardware does not say. Made from the schema in `src/domain/inventory.ts`.",
      }),
    ],
  ]);
}

if (import.meta.main) {
  mkdirSync(REFERENCE_FOLDER, { recursive: true });
  for (const [name, text] of referencePages()) writeFileSync(join(REFERENCE_FOLDER, name), text);
}
