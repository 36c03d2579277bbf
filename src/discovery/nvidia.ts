/**
 * Asks nvidia-smi: `-L`, `-q -x` and `topo -m` side by side in one round, then card by card where one lost card spoils the answer
 * for all. Nothing here throws for what the driver does: a broken source costs its own facts and is named in the warnings.
 */
import { parseBusId, smiBusId } from "../domain/bus-id.ts";
import type { UnusableCard } from "../domain/inventory.ts";
import { compact } from "../lib/compact.ts";
import { type ExecResult, type Runner, RunnerError } from "../platform/runner.ts";
import type { QueriedCard } from "./cards.ts";
import { NVIDIA_SMI_TIMEOUT_MS } from "./nvidia-forms.ts";
import { explainFailure, type Failure, type FailureKind } from "./nvidia-smi/failure.ts";
import { type ListReport, parseList } from "./nvidia-smi/list.ts";
import { parseTopology, type TopologyReport } from "./nvidia-smi/topology.ts";
import { byBusId, discoverProcNvidia, listNvidiaCards, type ProcNvidia } from "./pci.ts";

export interface NvidiaOptions {
  /** Program to run; a bare name is looked for on the PATH. */
  readonly program: string;
  readonly timeoutMs?: number;
  /** End of the whole round, by `performance.now()`: calls that follow others have what is left of it. */
  readonly untilMs?: number;
  readonly signal?: AbortSignal;
  /** Told of every call and how it ended. */
  readonly onCall?: (call: NvidiaCall) => void;
}

/** One call of a round and how it ended; for whoever judges the driver itself. */
export interface NvidiaCall {
  /** Arguments as typed: `-q -x`. */
  readonly args: string;
  readonly outcome: "absent" | "answered" | "failed" | "hung";
  /** The tool's words, or ours for a call that ended without any; `undefined` when nothing is wrong. */
  readonly text: string | undefined;
  readonly failure: FailureKind | undefined;
  readonly tookMs: number;
}

export interface NvidiaReport {
  readonly source: "nvml" | "nvidia-smi" | "none" | "unavailable";
  readonly driverVersion: string | undefined;
  readonly cudaVersion: string | undefined;
  readonly list: ListReport | undefined;
  readonly query: { readonly cards: readonly QueriedCard[] } | undefined;
  /** Why the query says nothing, in words for a card's health. */
  readonly queryProblem: string | undefined;
  readonly topology: TopologyReport | undefined;
  /** NVLinks per peer by card index, from NVML. */
  readonly nvlinks?: ReadonlyMap<number, Readonly<Record<string, number>>>;
  /** Cards known to be lost, from the queries card by card or from the kernel's own list. */
  readonly lostCards: readonly UnusableCard[];
  readonly warnings: readonly string[];
  /** Every call of the round, in the order in which they ended. */
  readonly calls: readonly NvidiaCall[];
}

/** Nothing asked, nothing known. */
export const NO_CARDS: NvidiaReport = {
  source: "none",
  driverVersion: undefined,
  cudaVersion: undefined,
  list: undefined,
  query: undefined,
  queryProblem: undefined,
  topology: undefined,
  lostCards: [],
  warnings: [],
  calls: [],
};

/** How one call ended. */
export type Answer =
  | { readonly kind: "absent" }
  | { readonly kind: "failed"; readonly text: string; readonly hung: boolean }
  | { readonly kind: "answered"; readonly result: ExecResult; readonly failure: Failure | undefined };

/** `before`: answers that have been asked for already. */
export interface AskedBefore {
  readonly list?: Promise<Answer>;
  readonly topology?: Promise<Answer>;
}

export async function askNvidiaSmi(runner: Runner, options: NvidiaOptions, before: AskedBefore = {}): Promise<NvidiaReport> {
  const calls: NvidiaCall[] = [];
  return { ...(await askRound(runner, { ...options, onCall: (call) => calls.push(call) }, before)), calls };
}

async function askRound(runner: Runner, options: NvidiaOptions, before: AskedBefore): Promise<Omit<NvidiaReport, "calls">> {
  const asked = Promise.all([
    before.list ?? askList(runner, options),
    ask(runner, options, ["-q", "-x"]),
    before.topology ?? askTopology(runner, options),
  ]);
  // The XML parser's first documents cost three times its later ones: that is spent while the driver thinks.
  // It is also loaded only now; what the calls throw meanwhile is thrown when they are awaited below.
  asked.catch(() => undefined);
  const { parseQuery } = await import("./nvidia-smi/query.ts");
  const warming = warmed ? undefined : warmUp(parseQuery);
  warmed = true;
  const [list, query, topology] = await asked;
  warming?.stop();
  if (list.kind === "absent" && query.kind === "absent") return withoutTool(runner);
  const parsedList = list.kind === "answered" ? parseList(list.result.stdout) : undefined;
  const usableList =
    parsedList !== undefined && (parsedList.cards.length > 0 || parsedList.inaccessible.length > 0) ? parsedList : undefined;
  const parsedQuery = query.kind === "answered" ? parseQuery(query.result.stdout) : undefined;
  const warnings = [
    ...describe("nvidia-smi -L", list, usableList !== undefined, list.kind === "absent" && query.kind === "answered"),
    ...describe("nvidia-smi -q -x", query, (parsedQuery?.cards.length ?? 0) > 0, false),
    ...(list.kind === "answered" ? (usableList?.warnings ?? []) : []),
    ...(query.kind === "answered" && isOneOf(query, true) ? (parsedQuery?.warnings ?? []) : []),
  ];
  const one = await oneByOne(runner, options, query, parsedQuery?.cards ?? [], usableList);
  const { cards } = one;
  const parsedTopology = topologyOf(topology);
  const nothing = usableList === undefined && cards.length === 0;
  const proc = nothing || parsedQuery?.driverVersion === undefined ? await quietly(() => discoverProcNvidia(runner)) : undefined;
  const onBus = nothing ? ((await quietly(() => listNvidiaCards(runner))) ?? []) : [];
  return {
    source: nothing ? "unavailable" : "nvidia-smi",
    driverVersion: parsedQuery?.driverVersion ?? one.driverVersion ?? proc?.driverVersion,
    cudaVersion: parsedQuery?.cudaVersion ?? one.cudaVersion,
    list: usableList,
    query: cards.length === 0 && query.kind !== "answered" ? undefined : { cards },
    queryProblem: problemOf(query),
    topology: parsedTopology.report,
    lostCards: nothing ? [...one.lost, ...stillKnown(proc, onBus, one.lost, wordsOf(query) ?? wordsOf(list))] : one.lost,
    warnings: folded([...warnings, ...parsedTopology.warnings]),
  };
}

export function askTopology(runner: Runner, options: NvidiaOptions): Promise<Answer> {
  return ask(runner, options, ["topo", "-m"]);
}

export function askList(runner: Runner, options: NvidiaOptions): Promise<Answer> {
  return ask(runner, options, ["-L"]);
}

/** What `-L` alone says, for a comparison of UUIDs and profiles. `undefined` when it does not list all cards without a flaw. */
export function listedReport(answer: Answer): NvidiaReport | undefined {
  const list = answer.kind === "answered" && answer.failure === undefined ? parseList(answer.result.stdout) : undefined;
  return list === undefined || list.cards.length === 0 || list.warnings.length > 0
    ? undefined
    : { ...NO_CARDS, source: "nvidia-smi", list };
}

const WARM_UP_ROUNDS = 30;
/** A state of the runtime's compiler, not of ours: an agent that asks every minute has a warm parser from its first round on. */
let warmed = false;

/** Parses a made-up card again and again, in steps of a millisecond or two, so that an answer is never kept waiting. */
function warmUp(parse: (text: string) => unknown): { stop(): void } {
  const element = (tag: string, content: string): string => `<${tag}>${content}</${tag}>\n\t`;
  const values = Array.from({ length: 40 }, (_, n) => element(`a${n}`, element("b", `${n} MiB`))).join("");
  const known = [
    element("uuid", "GPU-0"),
    element("mig_mode", element("current_mig", "Disabled")),
    element("pci", element("pci_bus_id", "0")),
    element("fb_memory_usage", element("total", "1 MiB")),
    element("temperature", element("gpu_temp", "1 C")),
    element("gpu_power_readings", element("power_draw", "1.00 W")),
    element("ecc_errors", element("volatile", element("dram_uncorrectable", "0"))),
    element("clocks_event_reasons", element("clocks_event_reason_hw_slowdown", "Not Active")),
    element("fabric", element("state", "Completed")),
    element("processes", element("process_info", element("pid", "1"))),
  ].join("");
  const text = `<nvidia_smi_log>${`<gpu id="0">${known}${values}</gpu>`.repeat(2)}</nvidia_smi_log>`;
  let left = WARM_UP_ROUNDS;
  let timer: ReturnType<typeof setTimeout>;
  const step = (): void => {
    parse(text);
    left--;
    if (left > 0) timer = setTimeout(step, 1);
  };
  timer = setTimeout(step, 0);
  return { stop: () => clearTimeout(timer) };
}

async function ask(runner: Runner, options: NvidiaOptions, args: readonly string[]): Promise<Answer> {
  const from = performance.now();
  const answer = await askOnce(runner, options, args);
  options.onCall?.({
    args: args.join(" "),
    outcome: answer.kind === "failed" && answer.hung ? "hung" : answer.kind,
    text: wordsOf(answer),
    failure: answer.kind === "answered" ? answer.failure?.kind : undefined,
    tookMs: performance.now() - from,
  });
  return answer;
}

async function askOnce(runner: Runner, options: NvidiaOptions, args: readonly string[]): Promise<Answer> {
  const argv = [options.program, ...args];
  try {
    const result = await runner.exec(argv, {
      timeoutMs: limitOf(options),
      lock: "driver",
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    if (result === undefined) return { kind: "absent" };
    return { kind: "answered", result, failure: explainFailure(result.exitCode, result.stdout, result.stderr) };
  } catch (error) {
    if (!(error instanceof RunnerError) || error.kind === "aborted") throw error;
    return { kind: "failed", text: error.message, hung: error.kind === "timeout" || error.kind === "busy" };
  }
}

/** A call that comes too late is answered with its limit at once, and costs its own facts only. */
function limitOf({ timeoutMs = NVIDIA_SMI_TIMEOUT_MS, untilMs }: NvidiaOptions): number {
  return untilMs === undefined ? timeoutMs : Math.max(100, Math.min(timeoutMs, untilMs - performance.now()));
}

async function withoutTool(runner: Runner): Promise<Omit<NvidiaReport, "calls">> {
  const cards = (await quietly(() => listNvidiaCards(runner))) ?? [];
  const warnings =
    cards.length === 0 ? [] : [`${cards.length} NVIDIA cards are on the PCI bus, but there is no nvidia-smi: install the driver`];
  return { ...NO_CARDS, warnings };
}

/** What to say of a call that gave nothing, or not everything. `partOnly`: absent although its sister answered, so only unrecorded. */
function describe(name: string, answer: Answer, useful: boolean, partOnly: boolean): readonly string[] {
  switch (answer.kind) {
    case "absent":
      return partOnly ? [] : [`${name} is not there`];
    case "failed":
      return [answer.text];
    case "answered":
      if (answer.failure !== undefined) return [`${name}: ${answer.failure.text}`];
      return useful ? [] : [`${name} printed nothing that names a card`];
    default:
      return answer satisfies never;
  }
}

/** Whether the answer is of a kind that the rest of it counts. */
function isOneOf(answer: Answer, always: boolean): boolean {
  return answer.kind === "answered" && (answer.failure === undefined || answer.failure.usable || always);
}

/** Why a call gave nothing, in the tool's words or ours. */
function wordsOf(answer: Answer): string | undefined {
  if (answer.kind === "failed") return answer.text;
  return answer.kind === "answered" ? answer.failure?.text : undefined;
}

function problemOf(answer: Answer): string | undefined {
  switch (answer.kind) {
    case "absent":
      return "its state is not known: nvidia-smi -q -x gave no answer";
    case "failed":
      return `its state is not known: ${answer.text}`;
    case "answered":
      return answer.failure === undefined || answer.failure.usable ? undefined : `its state is not known: ${answer.failure.text}`;
    default:
      return answer satisfies never;
  }
}

export function topologyOf(answer: Answer): { readonly report: TopologyReport | undefined; readonly warnings: readonly string[] } {
  switch (answer.kind) {
    case "absent":
      return { report: undefined, warnings: [] };
    case "failed":
      return { report: undefined, warnings: [answer.text] };
    case "answered": {
      if (answer.failure !== undefined && !answer.failure.usable) {
        return { report: undefined, warnings: [`nvidia-smi topo -m: ${answer.failure.text}`] };
      }
      const report = parseTopology(answer.result.stdout);
      if (report.cards.length > 0) return { report, warnings: report.warnings };
      return { report: undefined, warnings: report.warnings.length > 0 ? report.warnings : ["nvidia-smi topo -m printed no matrix"] };
    }
    default:
      return answer satisfies never;
  }
}

interface OneByOne {
  /** Those that answered together and those that answered for themselves. */
  readonly cards: readonly QueriedCard[];
  readonly lost: readonly UnusableCard[];
  readonly driverVersion: string | undefined;
  readonly cudaVersion: string | undefined;
}

/** One lost card makes the query for all fail: then each card is asked for itself, so that it does not hide the others. */
async function oneByOne(
  runner: Runner,
  options: NvidiaOptions,
  all: Answer,
  answered: readonly QueriedCard[],
  list: ListReport | undefined,
): Promise<OneByOne> {
  const nobodyElse: OneByOne = { cards: answered, lost: [], driverVersion: undefined, cudaVersion: undefined };
  if (all.kind !== "answered" || all.failure === undefined || all.failure.usable) return nobodyElse;
  if (all.failure.kind !== "card-lost" && all.failure.kind !== "other") return nobodyElse;
  const { parseQuery } = await import("./nvidia-smi/query.ts");
  const proc = await quietly(() => discoverProcNvidia(runner));
  const busIds = await cardsOnBus(runner, proc, all.failure, list);
  const done = new Set(answered.map((card) => parseBusId(card.busId)));
  const asked = await Promise.all(
    busIds
      .filter((busId) => !done.has(busId))
      .map(async (busId) => ({ busId, answer: await ask(runner, options, ["-q", "-x", "-i", smiBusId(busId)]) })),
  );
  const cards: QueriedCard[] = [];
  const lost: UnusableCard[] = [];
  // With a list the UUID tells the index of a card that answers; without one, only its place among all on the bus.
  const placed = (card: QueriedCard, index: number | undefined): QueriedCard =>
    (list?.cards.length ?? 0) > 0 || index === undefined ? card : { ...card, index };
  let versions: Pick<OneByOne, "driverVersion" | "cudaVersion"> = { driverVersion: undefined, cudaVersion: undefined };
  for (const { busId, answer } of asked) {
    const report = answer.kind === "answered" ? parseQuery(answer.result.stdout) : undefined;
    const card = report?.cards[0];
    const index = indexOnBus(busId, busIds, list);
    if (card === undefined) {
      const known = proc?.cards.find((candidate) => candidate.busId === busId);
      lost.push(compact({ index, uuid: known?.uuid, name: known?.model, pci_bus_id: busId, reason: lostReason(answer) }));
      continue;
    }
    versions = { driverVersion: report?.driverVersion ?? versions.driverVersion, cudaVersion: report?.cudaVersion ?? versions.cudaVersion };
    cards.push(placed(card, index));
  }
  const before = answered.map((card) => placed(card, indexOnBus(parseBusId(card.busId) ?? "", busIds, list)));
  return { cards: [...before, ...cards], lost, ...versions };
}

function lostReason(answer: Answer): string {
  switch (answer.kind) {
    case "absent":
      return "nvidia-smi did not answer for it";
    case "failed":
      return answer.text;
    case "answered":
      return answer.failure?.text ?? "nvidia-smi printed nothing about it";
    default:
      return answer satisfies never;
  }
}

/** Bus ids of the NVIDIA cards in bus order: as the driver's own folder lists them, else the PCI list, else what the sentences name. */
async function cardsOnBus(
  runner: Runner,
  proc: ProcNvidia | undefined,
  failure: Failure,
  list: ListReport | undefined,
): Promise<readonly string[]> {
  const pci = (await quietly(() => listNvidiaCards(runner))) ?? [];
  const named = [failure.busId, ...(list?.inaccessible ?? []).map((card) => card.busId)].flatMap((text) => {
    const busId = text === undefined ? undefined : parseBusId(text);
    return busId === undefined ? [] : [busId];
  });
  return unique([...(proc?.cards.map((card) => card.busId) ?? []), ...pci, ...named]).sort(byBusId);
}

/**
 * NVML counts cards in the order of their bus ids, lost ones included, so a card's place among all on the bus is its index. The list
 * is the better witness: what it says of the card wins, and a list that names another card at that index forbids the guess.
 */
function indexOnBus(busId: string, busIds: readonly string[], list: ListReport | undefined): number | undefined {
  const named = list?.inaccessible.find((card) => card.busId !== undefined && parseBusId(card.busId) === busId);
  if (named?.index !== undefined) return named.index;
  const place = busIds.indexOf(busId);
  if (place < 0) return undefined;
  if (list === undefined) return place;
  return list.cards.some((card) => card.index === place) ? undefined : place;
}

/** Cards that the kernel's module or the PCI bus lists although nvidia-smi gives no answer at all. */
function stillKnown(
  proc: ProcNvidia | undefined,
  onBus: readonly string[],
  lost: readonly UnusableCard[],
  problem: string | undefined,
): readonly UnusableCard[] {
  const known = new Map((proc?.cards ?? []).map((card) => [card.busId, card]));
  const reason = problem ?? "nvidia-smi gives no answer";
  return unique([...known.keys(), ...onBus])
    .filter((busId) => !lost.some((other) => other.pci_bus_id === busId))
    .map((busId) => compact({ uuid: known.get(busId)?.uuid, name: known.get(busId)?.model, pci_bus_id: busId, reason }));
}

/** One line for calls that fail with the same words: a broken driver is one warning and not three. */
function folded(warnings: readonly string[]): string[] {
  const calls = new Map<string, string[]>();
  for (const warning of warnings) {
    const found = /^nvidia-smi (-L|-q -x|topo -m): (.*)$/.exec(warning);
    const [key, call] = found === null ? [warning, undefined] : [found[2] ?? "", found[1]];
    calls.set(key, [...(calls.get(key) ?? []), ...(call === undefined ? [] : [call])]);
  }
  return [...calls].map(([text, names]) => (names.length === 0 ? text : `nvidia-smi ${names.join(", ")}: ${text}`));
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)];
}

/** A fallback that fails as well adds nothing. */
export async function quietly<T>(look: () => Promise<T>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (error instanceof RunnerError) return undefined;
    throw error;
  }
}
