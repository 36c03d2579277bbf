/** The generated pages of docs/reference/: `bun test/reference-pages.ts` rewrites them, docs.test.ts fails when one is stale. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CHECKS } from "../src/doctor/checks.ts";
import { AgentConfig } from "../src/domain/agent-config.ts";
import { CtlConfig } from "../src/domain/ctl-config.ts";
import { DoctorReport, Group } from "../src/domain/finding.ts";
import { Inventory } from "../src/domain/inventory.ts";
import { METRICS } from "../src/domain/metrics.ts";
import { ServerConfig } from "../src/domain/server-config.ts";
import { renderSchemaPage } from "../src/lib/schema-doc.ts";
import { MachineFile } from "../src/platform/machine-file.ts";

export const DOCTOR_PAGE = join(import.meta.dir, "../docs/doctor.md");

/** docs/doctor.md, from the checks' own texts. */
export function doctorPage(): string {
  const sections = Group.options.flatMap((group) => [
    `## ${group}`,
    ...CHECKS.filter((check) => check.group === group).map((check) =>
      [
        `### ${check.id}`,
        `Usually \`${check.severity}\`. Holds when ${check.title}.`,
        check.explain,
        ...(check.depends_on.length === 0
          ? []
          : [`Skipped when one of these has a problem: ${check.depends_on.map((id) => `\`${id}\``).join(", ")}.`]),
      ].join("\n\n"),
    ),
  ]);
  return `${[DOCTOR_INTRO, ...sections].join("\n\n")}\n`;
}

const DOCTOR_INTRO = `# llmgw doctor

Why can this node not serve, and what to do about it. \`llmgw doctor\` reads and changes nothing, needs no root to be useful, and ends within
15 s whatever hangs. This page is made from the checks' own texts (\`bun test/reference-pages.ts\`); \`llmgw doctor --explain ID\` shows one.

| result | means |
| --- | --- |
| ok | looked at, and well |
| problem | looked at, and not well; with evidence, what to do and the next command |
| waived | a problem that \`doctor.waive\` in agent.yaml accepts; shown with the reason |
| skipped | does not apply here, or its cause is reported by another check |
| unknown | applies and could not be found out; never shown as ok |

| severity | what happens to work |
| --- | --- |
| block | no new work for the subject until it clears |
| degrade | usable, but slower or at risk; others are preferred |
| advise | nothing |

Exit codes: 0 no problem at or above the line, 1 a problem at or above it, 2 wrong usage. \`--fail-on advise|degrade|block\` moves the line
(default \`degrade\`), \`--strict\` makes \`unknown\` count. \`--monitor\` prints one line for a monitoring agent and exits with 0 fine, 1 degraded,
2 blocked, 3 nothing found but something unknown. The data of \`--json\` is described in [doctor --json](reference/doctor-json.md).

\`\`\`yaml
doctor:
  waive:
    - id: ib-port-down
      subject: mlx5_3/1
      reason: spare port
      until: 2027-06-30
\`\`\``;

/** docs/reference/metrics.md, from the table of metrics. */
function metricsPage(): string {
  const titles = { both: "On agent and server", agent: "On agents only", server: "On the server only" } as const;
  const sections = (["both", "agent", "server"] as const).map((where) => {
    const rows = Object.values(METRICS[where]).map(
      ({ name, type, labels, help }) => `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(", ")} | ${help} |`,
    );
    return [`## ${titles[where]}`, ["| metric | type | labels | what it is |", "| --- | --- | --- | --- |", ...rows].join("\n")].join(
      "\n\n",
    );
  });
  return `${[METRICS_INTRO, ...sections].join("\n\n")}\n`;
}

const METRICS_INTRO = `# Metrics

Prometheus' text format at \`/metrics\`. On the server (port 8400) a scrape needs a viewer's token, as everything else there does; make one with
\`llmgw ctl operator create prometheus --role viewer\` and give it as \`authorization: { credentials_file: … }\`. Agents answer on
\`127.0.0.1:8401\` without one, unless \`metrics_listen\` in agent.yaml says otherwise. What is not known is no sample, never 0. The server knows
devices by \`uuid\` and leaves \`device\` and \`class\` empty. Made from the table in \`src/domain/metrics.ts\`.`;

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
      "server-yaml.md",
      renderSchemaPage(ServerConfig, {
        title: "server.yaml",
        intro:
          "The configuration of the control plane, at `/etc/llmgw/server.yaml`. Every key may be left out, and so may the file; flags of `llmgw server` win. Made from the schema in `src/domain/server-config.ts`.",
        outro: [
          "```yaml",
          "listen: 0.0.0.0:8400",
          "advertise: https://llmgw.example:8400",
          "database: postgres://llmgw@db.example/llmgw",
          "```",
        ].join("\n"),
      }),
    ],
    [
      "ctl-yaml.md",
      renderSchemaPage(CtlConfig, {
        title: "ctl.yaml",
        intro:
          "Which server `llmgw ctl` talks to when no flag and no variable says so, at `~/.config/llmgw/ctl.yaml` (or below `$XDG_CONFIG_HOME`). Made from the schema in `src/domain/ctl-config.ts`.",
        outro: ["```yaml", "server: https://llmgw.example:8400", "token_file: ~/.config/llmgw/token", "```"].join("\n"),
      }),
    ],
    ["metrics.md", metricsPage()],
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
    [
      "doctor-json.md",
      renderSchemaPage(DoctorReport, {
        title: "doctor --json",
        intro:
          "What `llmgw doctor --json` prints, ok findings included. `subject.kind` is node, gpu, instance, adapter, port, model, engine or path, with the keys that name one of its kind. Made from the schema in `src/domain/finding.ts`.",
      }),
    ],
  ]);
}

if (import.meta.main) {
  mkdirSync(REFERENCE_FOLDER, { recursive: true });
  for (const [name, text] of referencePages()) writeFileSync(join(REFERENCE_FOLDER, name), text);
  writeFileSync(DOCTOR_PAGE, doctorPage());
}
