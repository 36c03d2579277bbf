/**
 * `nvidia-smi topo -m`: how cards reach each other and the adapters. Seen with drivers 384 to 610.
 *
 * The tool separates cells by tabs and prints the header underlined; what arrives from pipes, containers and reports has lost the
 * escapes, the leading tab, or all tabs. So the rows' own labels are the truth, not the header, and a row is read in the way that gives
 * it as many connection words as there are rows.
 */

export interface TopologyCard {
  /** NVML index. */
  readonly index: number;
  /** Connection word per peer index: `NV18`, `PIX`, `SYS`. */
  readonly links: Readonly<Record<string, string>>;
  /** Number of NVLinks per peer index, for those connected by NVLink. */
  readonly nvlinks: Readonly<Record<string, number>>;
  /** Connection word per adapter name, in column order. */
  readonly nics: Readonly<Record<string, string>>;
  readonly cpuAffinity: string | undefined;
  /** A number, or a list on coherent systems. */
  readonly numaAffinity: string | undefined;
  readonly gpuNumaId: string | undefined;
}

export interface TopologyReport {
  readonly cards: readonly TopologyCard[];
  /** Adapter names in column order, from the legend, else the header, else NIC0, NIC1, …. */
  readonly nics: readonly string[];
  readonly warnings: readonly string[];
}

/** Nearest first. Anything else counts as far: SYS, SOC (the old word for NODE and SYS), words that are not known. */
const NEAR = ["PIX", "PXB", "PHB", "NODE"] as const;
const WORD = /^(?:X|[A-Z][A-Z0-9]{2,7})$/;
/** Cards and adapters; an adapter by the legend's `NIC0` or by any name that a device can have. */
const LABEL = /^(?:GPU\d{1,3}|NIC\d{1,3}|[a-z][\w.-]{1,62})$/i;

interface Row {
  readonly label: string;
  readonly words: readonly string[];
  /** What follows the connection words. */
  readonly tail: readonly string[];
  /** Read by white space, where an empty cell leaves no trace. */
  readonly spaced: boolean;
}

export function parseTopology(text: string): TopologyReport {
  const lines = clean(text).split(/\r?\n/);
  const raw = lines.map((line, at) => matrixLine(line, at < lines.length - 1)).filter((line) => line !== undefined);
  const labels = raw.map((line) => line.label);
  const cardLabels = labels.filter((label) => /^GPU\d+$/.test(label));
  if (cardLabels.length === 0) return { cards: [], nics: [], warnings: [] };
  const header = headerOf(lines);
  const { columns, certain } = columnLabels(labels, header);
  const legend = nicLegend(lines);
  const nicColumns = columns.filter((label) => !/^GPU\d+$/.test(label));
  const nics = nicColumns.map((label) => legend.get(label) ?? label);
  const tailNames = tailColumns(header);
  const rows = raw.filter((line) => /^GPU\d+$/.test(line.label)).map((line) => ({ label: line.label, row: readRow(line, columns) }));
  const unread = rows.filter(({ row }) => row === undefined).map(({ label }) => label);
  // When the columns are known from the rows only, one row that does not fit means that rows are missing: then no column is certain.
  if (unread.length > 0 && !certain) {
    return { cards: [], nics: [], warnings: [`nvidia-smi topo -m: the matrix does not fit together, at ${unread.join(", ")}`] };
  }
  const warnings = unread.map((label) => `nvidia-smi topo -m: the row of ${label} cannot be read`);
  const cards = rows.flatMap(({ row }) => (row === undefined ? [] : [cardOf(row, columns, legend, tailNames)]));
  return { cards, nics, warnings };
}

/** The adapters at the smallest distance below SYS, ties all listed, in column order. */
export function nearestNics(card: TopologyCard): { readonly distance: string; readonly names: readonly string[] } | undefined {
  for (const distance of NEAR) {
    const names = Object.entries(card.nics)
      .filter(([, word]) => word === distance)
      .map(([name]) => name);
    if (names.length > 0) return { distance, names };
  }
  return undefined;
}

/** Escapes for underlining go, also where the ESC byte was lost on the way. */
function clean(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what is looked for
  return text.replace(/\u001b?\[[0-9;]{0,8}m/g, "");
}

/** A sentence about a lost card may stand before it and holds a `GPU0` too (`GPU0000:17:00.0`). */
function headerOf(lines: readonly string[]): string {
  const isHeader = (line: string): boolean => /^\s*GPU\d{1,3}(?:\s|GPU|$)/.test(line) && matrixLine(line, true) === undefined;
  return lines.find((line) => /GPU\d.*CPU\s+Affinity/.test(line)) ?? lines.find(isHeader) ?? "";
}

interface MatrixLine {
  readonly label: string;
  readonly rest: string;
  /** False for a last line without a line end: the text may have been cut there. */
  readonly whole: boolean;
}

/** A row of the matrix: a label, then connection words. The header has labels after its label, the legend a `=` or a colon. */
function matrixLine(line: string, whole: boolean): MatrixLine | undefined {
  const found = /^\s*(\S+?)(\s.*)$/.exec(line);
  const [, label = "", rest = ""] = found ?? [];
  if (!LABEL.test(label) || line.includes("=") || /CPU\s+Affinity/.test(line)) return undefined;
  // Any word may be an adapter's name, so such a row must know itself: else a sentence before the matrix would be a row.
  if (!/^(?:GPU|NIC)\d/.test(label) && !/\sX(?:\s|$)/.test(rest)) return undefined;
  const first = rest.trim().split(/\s+/)[0] ?? "";
  return WORD.test(first) && !/^(?:GPU|NIC)\d*$/.test(first) ? { label, rest, whole } : undefined;
}

/**
 * Labels of the columns. Rows and columns are the same list in the same order; a header that holds all rows in their order is believed,
 * since rows may be missing. One that is glued together or damaged is not, and then the rows are all that is known.
 */
function columnLabels(rows: readonly string[], header: string): { readonly columns: readonly string[]; readonly certain: boolean } {
  const fromHeader = header
    .replace(/(?:CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA).*$/, "")
    .split(/\s+/)
    .filter((label) => LABEL.test(label));
  let next = 0;
  for (const label of fromHeader) if (label === rows[next]) next++;
  const certain = next === rows.length;
  return { columns: certain ? fromHeader : rows, certain };
}

function tailColumns(header: string): readonly string[] {
  return [...header.matchAll(/CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA\s+ID/g)].map((found) => found[0].replace(/\s+/g, " "));
}

/**
 * The connection words of a row, by tabs where they give the right number, else by white space. `undefined` when they do not fit the
 * columns: its own X must stand in its own column, and what follows is no connection word.
 */
function readRow({ label, rest, whole }: MatrixLine, columns: readonly string[]): Row | undefined {
  const count = columns.length;
  // Of a text that was cut the last word may be half of one: NV1 of NV18.
  const fits = (row: Row): boolean =>
    (whole || row.tail.length > 0) &&
    row.words.length === count &&
    row.words.every((word) => WORD.test(word)) &&
    row.words.indexOf("X") === columns.indexOf(label) &&
    !WORD.test(row.tail[0] ?? "");
  const byTabs = rest
    .replace(/^[\t ]/, "")
    .split("\t")
    .map((cell) => cell.trim());
  const tabbed: Row = { label, words: byTabs.slice(0, count), tail: byTabs.slice(count), spaced: false };
  if (rest.includes("\t") && fits(tabbed)) return tabbed;
  const spaced: Row = { label, words: rest.trim().split(/\s+/).slice(0, count), tail: spaceTail(rest, count), spaced: true };
  return fits(spaced) ? spaced : undefined;
}

/** After the matrix: cells by tabs when there are some, else by white space, where no cell can be empty. */
function spaceTail(rest: string, count: number): readonly string[] {
  const found = new RegExp(`^\\s*(?:\\S+\\s+){${count - 1}}\\S+(.*)$`).exec(rest);
  const tail = found?.[1] ?? "";
  return tail
    .trim()
    .split(/\s+/)
    .filter((cell) => cell !== "");
}

function cardOf(row: Row, columns: readonly string[], legend: ReadonlyMap<string, string>, tailNames: readonly string[]): TopologyCard {
  const links: Record<string, string> = {};
  const nvlinks: Record<string, number> = {};
  const nics: Record<string, string> = {};
  for (const [at, column] of columns.entries()) {
    const word = row.words[at] ?? "";
    const peer = /^GPU(\d+)$/.exec(column)?.[1];
    if (column === row.label || word === "X") continue;
    if (peer === undefined) nics[legend.get(column) ?? column] = word;
    else {
      links[peer] = word;
      const count = /^NV(\d+)$/.exec(word)?.[1];
      if (count !== undefined && Number(count) > 0) nvlinks[peer] = Number(count);
    }
  }
  return { index: Number(row.label.slice(3)), links, nvlinks, nics, ...tailOf(row, tailNames) };
}

/**
 * CPU list, NUMA node, the card's own NUMA id. The tool doubles the tab before NUMA values at times, so empty cells between them say
 * nothing, but an empty first cell is an empty CPU affinity (containers, Windows).
 * By white space an empty cell leaves no trace: then fewer cells than names say nothing, but for a list with ranges in front.
 */
function tailOf(row: Row, names: readonly string[]): Pick<TopologyCard, "cpuAffinity" | "numaAffinity" | "gpuNumaId"> {
  const [cpu, ...others] = row.tail;
  if (row.spaced && row.tail.length < names.length) {
    return { cpuAffinity: cpu !== undefined && /\d[-,]\d/.test(cpu) ? cpu : undefined, numaAffinity: undefined, gpuNumaId: undefined };
  }
  const hasNuma = names.includes("NUMA Affinity");
  const hasId = names.includes("GPU NUMA ID");
  // NUMA affinity, the tab that doubles, the card's id: with nothing in the first of the three, the next word is not it.
  const noNuma = others.length === 3 && others[0] === "" && others[1] === "";
  const values = noNuma ? ["", others[2] ?? ""] : others.filter((cell) => cell !== "");
  return {
    cpuAffinity: value(cpu),
    numaAffinity: hasNuma ? value(values[0]) : undefined,
    gpuNumaId: hasId ? value(values[1]) : undefined,
  };
}

function value(cell: string | undefined): string | undefined {
  return cell === undefined || cell === "" || /^n\/a$/i.test(cell) ? undefined : cell;
}

/** `NIC0: mlx5_0` lines after the legend. */
function nicLegend(lines: readonly string[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const line of lines) {
    const found = /^\s*(NIC\d{1,3}):\s*([A-Za-z][A-Za-z0-9_.-]{0,63})\s*$/.exec(line);
    if (found !== null) names.set(found[1] ?? "", found[2] ?? "");
  }
  return names;
}
