/**
 * The memory exchange service of multi-node NVLink, as `nvidia-imex-ctl -N` tells it. Its absence is no fault: single-board machines
 * and idle Kubernetes nodes run none (NVIDIA/NVSentinel#1471, NVIDIA/aicr#2641).
 */
import type { Imex } from "../domain/inventory.ts";
import { printable } from "../lib/printable.ts";
import { type ExecResult, type Runner, RunnerError } from "../platform/runner.ts";

export interface ImexReport {
  readonly imex?: Imex;
  /** Why nothing is known although the tool is there, in the tool's own words. Never set together with `imex`. */
  readonly problem?: string;
}

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 1024 * 1024;

/** Asks the daemon about its whole domain. `{}` without the program; throws nothing but what stops the whole command. */
export async function discoverImex(runner: Runner): Promise<ImexReport> {
  try {
    const result = await runner.exec(["nvidia-imex-ctl", "-N"], { timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES });
    if (result === undefined) return {};
    const imex = parseImexNodes(result.stdout);
    return imex === undefined ? { problem: ownWords(result) } : { imex };
  } catch (error) {
    if (!(error instanceof RunnerError) || error.kind === "aborted") throw error;
    return { problem: error.message };
  }
}

function ownWords(result: ExecResult): string {
  const line = `${result.stdout}\n${result.stderr}`
    .split("\n")
    .map((text) => text.trim())
    .find((text) => text !== "");
  return line === undefined ? `no output, exit code ${result.exitCode}` : printable(line);
}

/** Cells of the matrix, from the legend above it. Older builds have neither `!V!` nor `!M!`. */
const STATES: Readonly<Record<string, string>> = {
  C: "connected",
  N: "never_connected",
  D: "disconnected",
  R: "recovering",
  A: "authenticating",
  I: "invalid",
  "!V!": "version_mismatch",
  "!M!": "node_map_mismatch",
};

const NODE = /^Node #(\d{1,6})\s+-\s+(\S+)\s+-\s+(\S+)(?:\s+-\s+Version:\s*(\S+))?/;
const HEADER = /^\s*Nodes From\\To((?:\s+\d{1,6})+)\s*$/;
const ROW = /^\s*(\d{1,6})((?:\s+\S{1,8})+)\s*$/;
const DOMAIN = /^Domain State:\s*(\S+)/;

/**
 * Reads the text table: nodes, the matrix of connections (directed, so both halves count), the domain's state. A cell whose letter
 * nobody told us keeps its letter. `undefined` when the text holds neither a node nor a state. Source: recorded imex-18-nodes-up
 * (570.172) and imex-2-nodes-up-old-format.
 */
export function parseImexNodes(text: string): Imex | undefined {
  const nodes: Imex["nodes"] = [];
  const apart: NonNullable<Imex["disconnected"]> = [];
  let columns: readonly number[] = [];
  let domainState: string | undefined;
  for (const line of text.split(/\r?\n/)) {
    const node = NODE.exec(line);
    const header = HEADER.exec(line);
    const row = columns.length === 0 ? null : ROW.exec(line);
    const domain = DOMAIN.exec(line);
    if (node !== null) nodes.push(imexNode(node));
    else if (header !== null) columns = words(header[1]).map(Number);
    else if (row !== null) apart.push(...notConnected(Number(row[1]), columns, words(row[2])));
    else if (domain !== null) domainState = domain[1]?.toLowerCase();
  }
  if (nodes.length === 0 && domainState === undefined) return undefined;
  return {
    ...(domainState === undefined ? {} : { domain_state: printable(domainState) }),
    nodes,
    ...(apart.length === 0 ? {} : { disconnected: apart }),
  };
}

function imexNode(found: RegExpExecArray): Imex["nodes"][number] {
  const [, index = "", address = "", status = "", version] = found;
  return {
    index: Number(index),
    address: printable(address),
    status: printable(status.toLowerCase()),
    ...(version === undefined ? {} : { version: printable(version) }),
  };
}

/** A node that does not answer has a row of `I`, its own column included: that is no pair. */
function notConnected(from: number, columns: readonly number[], cells: readonly string[]): NonNullable<Imex["disconnected"]> {
  return cells.flatMap((cell, at) => {
    const to = columns[at];
    if (to === undefined || to === from || cell === "C") return [];
    return [{ from, to, state: STATES[cell] ?? printable(cell.toLowerCase()) }];
  });
}

function words(text: string | undefined): readonly string[] {
  return (text ?? "").split(/\s+/).filter((word) => word !== "");
}
