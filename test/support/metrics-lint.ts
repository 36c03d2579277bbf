/** Reads Prometheus' text format strictly, and says what breaks its rules or its conventions (prometheus.io/docs/practices/naming). */

export interface Scraped {
  /** Sample by name and labels, as written. */
  readonly samples: ReadonlyMap<string, number>;
  readonly problems: readonly string[];
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$/;
/** Units that are not base units. */
const OTHER_UNITS = /_(?:mb|mib|kb|gb|ms|milliseconds|minutes|hours|percent|pct|gbps|bits)(?:_|$)/;

export function lintMetrics(text: string): Scraped {
  const samples = new Map<string, number>();
  const types = new Map<string, string>();
  const helped = new Set<string>();
  const closed = new Set<string>();
  const problems: string[] = [];
  let current = "";
  if (text !== "" && !text.endsWith("\n")) problems.push("the last line does not end");
  for (const line of text.split("\n").slice(0, -1)) {
    const [, kind, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (kind === "HELP") {
      if (helped.has(name)) problems.push(`${name}: HELP stands twice`);
      if (rest === "" || rest.endsWith(".")) problems.push(`${name}: help is empty or ends with a full stop`);
      helped.add(name);
      if (current !== "") closed.add(current);
      current = name;
    } else if (kind === "TYPE") {
      if (types.has(name) || name !== current) problems.push(`${name}: TYPE stands twice or not behind its HELP`);
      if (rest !== "gauge" && rest !== "counter") problems.push(`${name}: unknown type ${rest}`);
      types.set(name, rest);
      lintName(name, rest, problems);
    } else {
      const [, sample = "", labels = "", value = ""] = SAMPLE.exec(line) ?? [];
      if (sample === "") problems.push(`not a sample: ${line}`);
      if (sample !== current || closed.has(sample)) problems.push(`${sample}: samples do not stand together`);
      if (!types.has(sample)) problems.push(`${sample}: no TYPE`);
      const key = `${sample}{${labels}}`;
      if (samples.has(key)) problems.push(`${key} stands twice`);
      if (Number.isNaN(Number(value))) problems.push(`${key}: "${value}" is no number`);
      if (types.get(sample) === "counter" && Number(value) < 0) problems.push(`${key}: a counter below zero`);
      samples.set(key, Number(value));
    }
  }
  return { samples, problems };
}

function lintName(name: string, type: string, problems: string[]): void {
  if (!NAME.test(name) || name.includes(":")) problems.push(`${name}: not a name for what is scraped directly`);
  if (!/^(?:llmgw|process)_/.test(name)) problems.push(`${name}: no prefix of ours`);
  if ((type === "counter") !== name.endsWith("_total")) problems.push(`${name}: _total is for counters, and for all of them`);
  if (OTHER_UNITS.test(name)) problems.push(`${name}: not a base unit`);
  if (/_(?:gauge|counter|metric)(?:_|$)/.test(name)) problems.push(`${name}: its type stands in its name`);
}
