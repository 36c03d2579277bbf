/** Metrics in Prometheus' text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats). Pure. */

export interface Metric {
  /** Base unit at its end (`_bytes`, `_seconds`), `_total` for what only rises. */
  readonly name: string;
  readonly type: "gauge" | "counter";
  readonly help: string;
  readonly labels: readonly string[];
}

export type Labels = Readonly<Record<string, string | number | undefined>>;

export interface MetricsPage {
  /** A value that is not known is no sample. Labels without a value are empty, which is what Prometheus takes an absent one for. */
  set(metric: Metric, labels: Labels, value: number | undefined): void;
  /** Metrics in the order of their first sample, all samples of one together. Throws when a sample stands twice. */
  text(): string;
}

export function createMetricsPage(): MetricsPage {
  const families = new Map<Metric, Map<string, number>>();
  return {
    set: (metric, labels, value) => {
      if (value === undefined || Number.isNaN(value)) return;
      const samples = families.get(metric) ?? new Map<string, number>();
      families.set(metric, samples);
      const text = labelText(metric, labels);
      if (samples.has(text)) throw new Error(`${metric.name}${text} is set twice`);
      samples.set(text, value);
    },
    text: () => [...families].map(([metric, samples]) => familyText(metric, samples)).join(""),
  };
}

function familyText(metric: Metric, samples: ReadonlyMap<string, number>): string {
  const head = `# HELP ${metric.name} ${metric.help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${metric.name} ${metric.type}\n`;
  return `${head}${[...samples].map(([labels, value]) => `${metric.name}${labels} ${value}\n`).join("")}`;
}

function labelText(metric: Metric, labels: Labels): string {
  const unknown = Object.keys(labels).find((name) => !metric.labels.includes(name));
  if (unknown !== undefined) throw new Error(`${metric.name} has no label ${unknown}`);
  if (metric.labels.length === 0) return "";
  return `{${metric.labels.map((name) => `${name}="${escaped(String(labels[name] ?? ""))}"`).join(",")}}`;
}

function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
