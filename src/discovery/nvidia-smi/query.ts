/**
 * `nvidia-smi -q -x`: everything about each card but its index, its instances' UUIDs and its compute capability.
 *
 * Each `<gpu>` block is parsed by itself, so a broken or cut block costs its own card. The DTD that the document names is never
 * delivered and never asked for. Values are found by path, since tag names repeat under different parents. Seen with drivers 352 to 610.
 */
import { XMLParser } from "fast-xml-parser";
import { parseBusId } from "../../domain/bus-id.ts";
import { printable } from "../../lib/printable.ts";
import {
  ERROR_HINTS,
  errorText,
  isLost,
  parseCelsius,
  parseCount,
  parseFlag,
  parseInstanceId,
  parseLanes,
  parseMib,
  parseName,
  parsePercent,
  parseSwitch,
  parseVersion,
  parseWatts,
  parseWord,
} from "./values.ts";
import { nodeAt, nodesAt, textAt, type XmlNode } from "./xml-node.ts";

export interface RawMigDevice {
  /** MIG device index, the same as `Device N` of `-L`. */
  readonly index: number;
  readonly gpuInstanceId: number | undefined;
  readonly computeInstanceId: number | undefined;
  /** MiB. Instances that share a GPU instance each show the whole of its memory. */
  readonly memoryTotalMb: number | undefined;
  readonly memoryUsedMb: number | undefined;
  readonly smCount: number | undefined;
  readonly sramUncorrectable: number | undefined;
}

export interface RawProcess {
  readonly pid: number;
  readonly name: string | undefined;
  readonly memoryMb: number | undefined;
  readonly gpuInstanceId: number | undefined;
  readonly computeInstanceId: number | undefined;
  /** C compute, G graphics, C+G both. */
  readonly type: string | undefined;
}

export interface RawFabric {
  /** As printed: In Progress, Completed. */
  readonly state: string;
  readonly status: string | undefined;
  readonly cliqueId: number | undefined;
  readonly clusterUuid: string | undefined;
  readonly healthSummary: string | undefined;
  /** What else stands under `health`, as printed, by tag: `bandwidth`, `route_unhealthy`, …. From 570 on; NVML's records leave it out. */
  readonly health?: Readonly<Record<string, string>>;
}

export interface RawEcc {
  readonly current: "enabled" | "disabled" | undefined;
  readonly pending: "enabled" | "disabled" | undefined;
  /** Since the last reset. */
  readonly volatileUncorrectable: number | undefined;
  /** Since the card was made: history, not a present fault. */
  readonly aggregateUncorrectable: number | undefined;
  readonly sramThresholdExceeded: boolean | undefined;
  readonly channelRepairPending: boolean | undefined;
  readonly tpcRepairPending: boolean | undefined;
}

export interface RawClockReasons {
  readonly hwSlowdown: boolean | undefined;
  readonly hwThermal: boolean | undefined;
  readonly hwPowerBrake: boolean | undefined;
  readonly swThermal: boolean | undefined;
  readonly swPowerCap: boolean | undefined;
}

export interface RawCard {
  /** As printed, with a domain of 4 or 8 digits. */
  readonly busId: string;
  readonly uuid: string | undefined;
  readonly name: string | undefined;
  /** `Tesla`, `GeForce`, from 510 on mostly `NVIDIA`. Not in NVML's records. */
  readonly brand?: string | undefined;
  /** `Ampere`, `Blackwell`: from 510 on. Not in NVML's records. */
  readonly architecture?: string | undefined;
  /** N of `/dev/nvidiaN`; not the index. */
  readonly minor: number | undefined;
  readonly migCurrent: "enabled" | "disabled" | undefined;
  readonly migPending: "enabled" | "disabled" | undefined;
  readonly migDevices: readonly RawMigDevice[];
  readonly memoryTotalMb: number | undefined;
  readonly memoryUsedMb: number | undefined;
  readonly memoryFreeMb: number | undefined;
  readonly temperatureC: number | undefined;
  /** Instantaneous where there are two. */
  readonly powerW: number | undefined;
  readonly powerLimitW: number | undefined;
  readonly utilizationPct: number | undefined;
  readonly computeMode: string | undefined;
  readonly persistenceMode: "enabled" | "disabled" | undefined;
  /** `undefined` when the driver does not say; `[]` when there are none. */
  readonly processes: readonly RawProcess[] | undefined;
  readonly fabric: RawFabric | undefined;
  readonly ecc: RawEcc;
  /** Counts of rows remapped for correctable and uncorrectable errors: history. Not in NVML's records. */
  readonly remappedRows: {
    readonly pending: boolean | undefined;
    readonly failure: boolean | undefined;
    readonly correctable?: number | undefined;
    readonly uncorrectable?: number | undefined;
  };
  readonly retiredPagesPending: boolean | undefined;
  /** `undefined` for "None" as well as for no value. */
  readonly recoveryAction: string | undefined;
  readonly resetRequired: boolean | undefined;
  readonly drainAndResetRecommended: boolean | undefined;
  readonly clockReasons: RawClockReasons;
  readonly virtualizationMode: string | undefined;
  readonly pcie: {
    readonly genCurrent: number | undefined;
    readonly genMax: number | undefined;
    readonly widthCurrent: number | undefined;
    readonly widthMax: number | undefined;
  };
  /** False when its part of the output could not be read: then nothing but the bus id is known. */
  readonly readable: boolean;
  /** Some value reads "GPU is lost". */
  readonly lost: boolean;
  /** Distinct errors that the driver gives in place of values. */
  readonly errorTexts: readonly string[];
}

export interface QueryReport {
  readonly driverVersion: string | undefined;
  readonly cudaVersion: string | undefined;
  /** Cards that the machine has, as printed; fewer blocks may follow. */
  readonly attachedGpus: number | undefined;
  readonly cards: readonly RawCard[];
  readonly warnings: readonly string[];
}

/** A node of NVL72 has 4, a server up to 16 cards; far more is no answer of a machine. */
const MAX_CARDS = 256;
/** Blocks are 15 to 50 KiB, most of it the clock table that is cut out first. */
const MAX_BLOCK_CHARS = 4 * 1024 * 1024;

/** Parses the whole output. Never throws on any text. */
export function parseQuery(text: string): QueryReport {
  const from = firstOf(text, ["<?xml", "<nvidia_smi_log"]);
  if (from < 0) return { driverVersion: undefined, cudaVersion: undefined, attachedGpus: undefined, cards: [], warnings: [] };
  const body = text.slice(from);
  const { blocks, head, cut } = splitBlocks(body);
  const warnings: string[] = [];
  if (blocks.length === MAX_CARDS) warnings.push(`nvidia-smi -q -x: no more than ${MAX_CARDS} cards are read`);
  if (cut || !body.includes("</nvidia_smi_log>")) warnings.push("nvidia-smi -q -x: the output is cut off");
  const cards = blocks.map((block) => parseBlock(block, warnings));
  return {
    // From 610 on the old names may hold a note in place of the number ("Deprecated, see …").
    driverVersion: firstKnown(["driver_version", "kmd_version"], (tag) => parseVersion(tagText(head, tag))),
    cudaVersion: firstKnown(["cuda_version", "cuda_umd_version"], (tag) => parseVersion(tagText(head, tag))),
    attachedGpus: parseCount(tagText(head, "attached_gpus")),
    cards,
    warnings,
  };
}

function firstOf(text: string, marks: readonly string[]): number {
  return marks.map((mark) => text.indexOf(mark)).find((at) => at >= 0) ?? -1;
}

/**
 * Blocks that nobody reads, by tag: most of the bytes of a card, the table of supported clocks alone 20 KiB. None of them holds an element
 * of its own name. They are cut out by plain search, which is a hundred times faster than parsing them.
 */
const UNREAD = [
  "supported_clocks",
  "clocks",
  "applications_clocks",
  "default_applications_clocks",
  "deferred_clocks",
  "max_clocks",
  "max_customer_boost_clocks",
  "clock_policy",
  "clocks_event_reasons_counters",
  "sparse_operation_mode",
  "inforom_version",
  "inforom_bbx_flush",
  "gpu_operation_mode",
  "driver_model",
  "encoder_stats",
  "fbc_stats",
  "bar1_memory_usage",
  "cc_protected_memory_usage",
  "module_power_readings",
  "gpu_memory_power_readings",
  "power_smoothing",
  "power_profiles",
  "supported_gpu_target_temp",
  "row_remapper_histogram",
  "aggregate_uncorrectable_sram_sources",
  "platformInfo",
  "accounted_processes",
  "capabilities",
  "pci_bridge_chip",
  "ibmnpu",
];

function withoutUnread(text: string): string {
  return UNREAD.reduce(withoutBlocks, text);
}

/** A block without an end stays: then its card's tags do not nest. */
function withoutBlocks(text: string, tag: string): string {
  const [opening, closing] = [`<${tag}>`, `</${tag}>`];
  const parts: string[] = [];
  let at = 0;
  for (;;) {
    const open = text.indexOf(opening, at);
    const close = open < 0 ? -1 : text.indexOf(closing, open);
    if (open < 0 || close < 0) break;
    parts.push(text.slice(at, open));
    at = close + closing.length;
  }
  return at === 0 ? text : parts.join("") + text.slice(at);
}

interface Block {
  readonly id: string;
  /** Up to its end tag; `undefined` when it has none. */
  readonly xml: string | undefined;
}

interface Start {
  readonly id: string;
  readonly at: number;
}

function splitBlocks(body: string): { readonly blocks: readonly Block[]; readonly head: string; readonly cut: boolean } {
  const starts = blockStarts(body);
  let cut = false;
  const blocks = starts.slice(0, MAX_CARDS).map(({ id, at }, place): Block => {
    // No block reaches into the next card: one that lost its end costs its own card.
    const xml = body.slice(at, starts[place + 1]?.at ?? body.length);
    const close = xml.lastIndexOf("</gpu>");
    if (close < 0 && place === starts.length - 1) cut = true;
    return { id, xml: close < 0 || close > MAX_BLOCK_CHARS ? undefined : xml.slice(0, close + "</gpu>".length) };
  });
  return { blocks, head: body.slice(0, starts[0]?.at ?? body.length), cut };
}

/** Where cards begin; one more than are read, since it ends the last of them. */
function blockStarts(body: string): readonly Start[] {
  const starts: Start[] = [];
  for (const found of body.matchAll(/<gpu id="([^"<>]{1,64})">/g)) {
    starts.push({ id: found[1] ?? "", at: found.index });
    if (starts.length > MAX_CARDS) break;
  }
  return starts;
}

/** The text of a tag that stands alone in the head of the document. */
function tagText(head: string, tag: string): string | undefined {
  return new RegExp(`<${tag}>([^<]{0,200})</${tag}>`).exec(head)?.[1];
}

const parser = new XMLParser({
  ignoreAttributes: true,
  parseTagValue: false,
  trimValues: true,
  // The few texts that may hold entities are decoded where they are read (values.ts); nothing a document declares is ever expanded.
  processEntities: false,
  // Halves the time: the path of each tag as a text is for callbacks, and there are none.
  jPath: false,
  isArray: (name) => name === "mig_device" || name === "process_info",
});

function parseBlock(block: Block, warnings: string[]): RawCard {
  const node = block.xml === undefined ? undefined : parseXml(withoutUnread(block.xml));
  if (block.xml === undefined || node === undefined || !isOneCard(block.id, node)) {
    warnings.push(`nvidia-smi -q -x: the part about card ${printable(block.id)} cannot be read`);
    return { ...cardOf(block.id, {}, []), readable: false };
  }
  return cardOf(block.id, node, errorsIn(block.xml));
}

/**
 * Distinct error texts that stand in place of values, also in the blocks that are cut out before parsing: a card may be lost while only
 * its clocks are read. A process may be named like one, so names of processes do not count.
 */
function errorsIn(xml: string): readonly string[] {
  if (!ERROR_HINTS.some((hint) => xml.includes(hint))) return [];
  const found = new Set<string>();
  for (const [, tag, value = ""] of xml.matchAll(/<([A-Za-z_][\w.-]{0,100})>([^<>]{1,80})<\//g)) {
    const text = tag === "process_name" ? undefined : errorText(value);
    if (text !== undefined) found.add(text);
  }
  return [...found];
}

/** A hole in the output joins the parts of two cards, well formed: then there are two UUIDs, or another bus id than at the start. */
function isOneCard(id: string, node: XmlNode): boolean {
  const own = parseBusId(id);
  const inside = parseBusId(textAt(node, "pci.pci_bus_id") ?? id);
  return !Array.isArray(node.uuid) && (own === undefined || inside === undefined || own === inside);
}

/** `undefined` for anything that is not well formed: a lenient reading of a damaged block could put a value under a wrong name. */
function parseXml(xml: string): XmlNode | undefined {
  if (!tagsNest(xml)) return undefined;
  try {
    const parsed: unknown = parser.parse(xml);
    return nodeAt(parsed, "gpu");
  } catch {
    return undefined;
  }
}

/** A card's values are at most 6 levels deep. */
const MAX_DEPTH = 32;

/**
 * Whether every tag is closed in turn and nothing else looks like markup. The library's validator says more and takes as long as parsing;
 * of what it checks, nvidia-smi's documents have only tags.
 */
function tagsNest(xml: string): boolean {
  const open: string[] = [];
  let tags = 0;
  for (const [, closing, name = "", empty] of xml.matchAll(/<(\/?)([A-Za-z_][\w.-]{0,100})(?: id="[^"<>]{1,64}")?( ?\/)?>/g)) {
    tags++;
    if (closing === "") {
      if (empty === undefined) open.push(name);
      if (open.length > MAX_DEPTH) return false;
    } else if (empty !== undefined || open.pop() !== name) return false;
  }
  return open.length === 0 && xml.split("<").length === tags + 1;
}

function cardOf(id: string, node: XmlNode, errorTexts: readonly string[]): RawCard {
  const text = (path: string): string | undefined => textAt(node, path);
  const mode = text("compute_mode");
  return {
    busId: text("pci.pci_bus_id") ?? id,
    uuid: parseUuid(text("uuid")),
    name: parseName(text("product_name")),
    brand: parseName(text("product_brand")),
    architecture: parseName(text("product_architecture")),
    minor: parseCount(text("minor_number")),
    migCurrent: parseSwitch(text("mig_mode.current_mig")),
    migPending: parseSwitch(text("mig_mode.pending_mig")),
    migDevices: nodesAt(node, "mig_devices.mig_device").flatMap(migDevice),
    memoryTotalMb: positive(parseMib(text("fb_memory_usage.total"))),
    memoryUsedMb: parseMib(text("fb_memory_usage.used")),
    memoryFreeMb: parseMib(text("fb_memory_usage.free")),
    temperatureC: parseCelsius(text("temperature.gpu_temp")),
    powerW: firstKnown(
      [
        "gpu_power_readings.instant_power_draw",
        "gpu_power_readings.power_draw",
        "gpu_power_readings.average_power_draw",
        "power_readings.power_draw",
      ],
      (path) => parseWatts(text(path)),
    ),
    powerLimitW: firstKnown(
      [
        "gpu_power_readings.current_power_limit",
        "gpu_power_readings.enforced_power_limit",
        "power_readings.enforced_power_limit",
        "power_readings.power_limit",
      ],
      (path) => parseWatts(text(path)),
    ),
    utilizationPct: parsePercent(text("utilization.gpu_util")),
    computeMode: parseWord(mode),
    persistenceMode: parseSwitch(text("persistence_mode")),
    processes: processesOf(node),
    fabric: fabricOf(node),
    ecc: eccOf(node),
    remappedRows: {
      pending: parseFlag(text("remapped_rows.remapped_row_pending")),
      failure: parseFlag(text("remapped_rows.remapped_row_failure")),
      correctable: parseCount(text("remapped_rows.remapped_row_corr")),
      uncorrectable: parseCount(text("remapped_rows.remapped_row_unc")),
    },
    retiredPagesPending: either(parseFlag(text("retired_pages.pending_retirement")), parseFlag(text("retired_pages.pending_blacklist"))),
    recoveryAction: parseWord(text("gpu_recovery_action")),
    resetRequired: parseFlag(text("gpu_reset_status.reset_required")),
    drainAndResetRecommended: parseFlag(text("gpu_reset_status.drain_and_reset_recommended")),
    clockReasons: clockReasonsOf(node),
    virtualizationMode: parseWord(text("gpu_virtualization_mode.virtualization_mode")),
    pcie: {
      genCurrent: parseCount(text("pci.pci_gpu_link_info.pcie_gen.current_link_gen")),
      genMax: parseCount(text("pci.pci_gpu_link_info.pcie_gen.max_link_gen")),
      widthCurrent: parseLanes(text("pci.pci_gpu_link_info.link_widths.current_link_width")),
      widthMax: parseLanes(text("pci.pci_gpu_link_info.link_widths.max_link_width")),
    },
    readable: true,
    lost: errorTexts.some(isLost),
    errorTexts,
  };
}

/** `GPU-…`; Jetson prints the bare form; some sources mask digits. Anything else names no card. */
function parseUuid(text: string | undefined): string | undefined {
  const word = parseWord(text);
  return word !== undefined && /^(?:GPU-)?[0-9a-zA-Z*-]{8,64}$/.test(word) ? word : undefined;
}

/** A card with no memory at all is one that does not say. */
function positive(value: number | undefined): number | undefined {
  return value === 0 ? undefined : value;
}

function firstKnown<T>(paths: readonly string[], read: (path: string) => T | undefined): T | undefined {
  for (const path of paths) {
    const value = read(path);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** True when one is, false when one is and none is true. */
function either(a: boolean | undefined, b: boolean | undefined): boolean | undefined {
  return a === true || b === true ? true : (a ?? b);
}

function migDevice(node: XmlNode): readonly RawMigDevice[] {
  const index = parseCount(textAt(node, "index"));
  if (index === undefined) return [];
  return [
    {
      index,
      gpuInstanceId: parseInstanceId(textAt(node, "gpu_instance_id")),
      computeInstanceId: parseInstanceId(textAt(node, "compute_instance_id")),
      memoryTotalMb: parseMib(textAt(node, "fb_memory_usage.total")),
      memoryUsedMb: parseMib(textAt(node, "fb_memory_usage.used")),
      smCount: parseCount(textAt(node, "device_attributes.shared.multiprocessor_count")),
      sramUncorrectable: parseCount(textAt(node, "ecc_error_count.volatile_count.sram_uncorrectable")),
    },
  ];
}

function processesOf(node: XmlNode): readonly RawProcess[] | undefined {
  const block = node.processes;
  if (block === undefined) return undefined;
  if (typeof block === "string") return block.trim() === "" ? [] : undefined;
  return nodesAt(node, "processes.process_info").flatMap((info) => {
    const pid = parseCount(textAt(info, "pid"));
    if (pid === undefined) return [];
    return [
      {
        pid,
        name: parseName(textAt(info, "process_name")),
        memoryMb: parseMib(textAt(info, "used_memory")),
        gpuInstanceId: parseInstanceId(textAt(info, "gpu_instance_id")),
        computeInstanceId: parseInstanceId(textAt(info, "compute_instance_id")),
        type: parseWord(textAt(info, "type")),
      },
    ];
  });
}

function fabricOf(node: XmlNode): RawFabric | undefined {
  const state = parseWord(textAt(node, "fabric.state"));
  if (state === undefined) return undefined;
  return {
    state,
    status: statusWord(textAt(node, "fabric.status")),
    cliqueId: parseCount(textAt(node, "fabric.cliqueId")),
    clusterUuid: parseWord(textAt(node, "fabric.clusterUuid")),
    healthSummary: parseWord(textAt(node, "fabric.health.summary")),
    health: healthOf(nodeAt(node, "fabric.health") ?? {}),
  };
}

function healthOf(node: XmlNode): Readonly<Record<string, string>> {
  const words = Object.entries(node).flatMap(([tag, value]) => {
    const word = typeof value === "string" && tag !== "summary" && tag !== "#text" ? parseWord(value) : undefined;
    return word === undefined ? [] : [[tag, word] as const];
  });
  return Object.fromEntries(words);
}

/** Here "Unknown Error" is an answer: registration failed with it. */
function statusWord(text: string | undefined): string | undefined {
  return text !== undefined && /^unknown error$/i.test(text.trim()) ? text.trim() : parseWord(text);
}

/** Where errors of two bits were counted before Turing, beside their total. */
const DOUBLE_BIT = ["device_memory", "register_file", "l1_cache", "l2_cache", "texture_memory", "texture_shm", "cbu"];

/**
 * Counters by driver generation: until 430 and on cards before Turing `double_bit`; then SRAM and DRAM; from 550 on SRAM in two parts on
 * Ampere and later. A total and its parts are never both counted.
 */
function uncorrectableOf(node: XmlNode, kind: "volatile" | "aggregate"): number | undefined {
  const count = (name: string): number | undefined => parseCount(textAt(node, `ecc_errors.${kind}.${name}`));
  const sram = sumOfKnown([count("sram_uncorrectable_parity"), count("sram_uncorrectable_secded")]) ?? count("sram_uncorrectable");
  return (
    sumOfKnown([sram, count("dram_uncorrectable")]) ??
    count("double_bit.total") ??
    sumOfKnown(DOUBLE_BIT.map((part) => count(`double_bit.${part}`)))
  );
}

/** `undefined` when none is known, and when the sum is more than a double can hold. */
function sumOfKnown(counts: readonly (number | undefined)[]): number | undefined {
  const known = counts.filter((count) => count !== undefined);
  const sum = known.reduce((total, count) => total + count, 0);
  return known.length > 0 && Number.isSafeInteger(sum) ? sum : undefined;
}

function eccOf(node: XmlNode): RawEcc {
  return {
    current: parseSwitch(textAt(node, "ecc_mode.current_ecc")),
    pending: parseSwitch(textAt(node, "ecc_mode.pending_ecc")),
    volatileUncorrectable: uncorrectableOf(node, "volatile"),
    aggregateUncorrectable: uncorrectableOf(node, "aggregate"),
    sramThresholdExceeded: parseFlag(textAt(node, "ecc_errors.aggregate.sram_threshold_exceeded")),
    channelRepairPending: parseFlag(textAt(node, "ecc_errors.channel_repair_pending")),
    tpcRepairPending: parseFlag(textAt(node, "ecc_errors.tpc_repair_pending")),
  };
}

/** `clocks_throttle_reasons` before 535, `clocks_event_reasons` since; the children were renamed with them. */
function clockReasonsOf(node: XmlNode): RawClockReasons {
  const reason = (name: string): boolean | undefined =>
    parseFlag(
      textAt(node, `clocks_event_reasons.clocks_event_reason_${name}`) ??
        textAt(node, `clocks_throttle_reasons.clocks_throttle_reason_${name}`),
    );
  return {
    hwSlowdown: reason("hw_slowdown"),
    hwThermal: reason("hw_thermal_slowdown"),
    hwPowerBrake: reason("hw_power_brake_slowdown"),
    swThermal: reason("sw_thermal_slowdown"),
    swPowerCap: reason("sw_power_cap"),
  };
}
