/**
 * Adapters of `/sys/class/infiniband`: InfiniBand, RoCE, iWARP, Omni-Path, EFA. Read from sysfs and not through ibstat, which stops at
 * the first adapter that it cannot read and loses the rest (leptonai/gpud#752). Sources: the kernel's
 * Documentation/ABI/stable/sysfs-class-infiniband and drivers/infiniband/core/sysfs.c.
 */
import type { FabricDeclaration } from "../domain/agent-config.ts";
import { parseBusId } from "../domain/bus-id.ts";
import type { Hca, Port } from "../domain/inventory.ts";
import { compact } from "../lib/compact.ts";
import { listed, printable } from "../lib/printable.ts";
import { type Runner, RunnerError, type RunnerErrorKind, readText } from "../platform/runner.ts";
import { type FoundAdapter, labelFabrics } from "./fabric-labels.ts";
import { parseNumaNode } from "./pci.ts";

export interface InfinibandOptions {
  /** The class folder, usually `/sys/class/infiniband`. */
  readonly root: string;
  readonly fabrics: readonly FabricDeclaration[];
}

export interface InfinibandReport {
  /** In the order of the numbers in their names: mlx5_2 before mlx5_10. */
  readonly hcas: readonly Hca[];
  readonly warnings: readonly string[];
}

/** A hung adapter makes the reads of `state` and the like hang: the driver is asked at that moment. */
const TIMEOUT_MS = 2_000;
/** A file of sysfs is at most one page of 4 KiB; 64 KiB is the largest page of any kernel. */
const READ = { timeoutMs: TIMEOUT_MS, maxBytes: 64 * 1024 };

/**
 * All adapters, with the fabrics of `agent.yaml`. Every file that cannot be read costs its own field; an adapter with failures is named in
 * one warning. No folder (the module is not loaded) and an empty one are no adapters and no fault.
 */
export async function discoverInfiniband(runner: Runner, options: InfinibandOptions): Promise<InfinibandReport> {
  const names = await adapterNames(runner, options.root);
  // What only the comparison of fabrics needs is read only where fabrics are declared.
  const compare = options.fabrics.length > 0;
  const read = await Promise.all(names.found.map((name) => readAdapter(runner, options.root, name, compare)));
  const labelled = labelFabrics(
    read.map((one) => one.adapter),
    options.fabrics,
  );
  return { hcas: labelled.hcas, warnings: [...names.warnings, ...read.flatMap((one) => one.warnings), ...labelled.warnings] };
}

/** Why a class folder that a person named cannot be used, in words; `undefined` when it can. */
export async function checkIbRoot(runner: Runner, root: string): Promise<string | undefined> {
  try {
    const stat = await runner.stat(root, READ);
    if (stat === undefined) return `there is no folder ${printable(root)}`;
    return stat.kind === "directory" ? undefined : `${printable(root)} is not a folder`;
  } catch (error) {
    return messageOfRefusal(error);
  }
}

interface AdapterNames {
  readonly found: readonly string[];
  readonly warnings: readonly string[];
}

async function adapterNames(runner: Runner, root: string): Promise<AdapterNames> {
  let entries: readonly string[];
  try {
    entries = (await runner.listDir(root, READ)) ?? [];
  } catch (error) {
    return { found: [], warnings: [`adapters could not be listed: ${messageOfRefusal(error)}`] };
  }
  const names = entries.filter((name) => !name.startsWith(".")).sort(byNumber);
  const kinds = await Promise.all(names.map((name) => entryKind(runner, `${root}/${name}`)));
  const gone = names.filter((_, at) => kinds[at] === "gone");
  return {
    found: names.filter((_, at) => kinds[at] === "adapter"),
    warnings: [
      ...(gone.length === 0
        ? []
        : [
            `${listed(gone)}: listed in ${root}, but the folder behind is not there: the device is being removed, or this is a container without the device part of sysfs`,
          ]),
      ...kinds.flatMap((kind) => (typeof kind === "object" ? [kind.refused] : [])),
    ],
  };
}

/** Entries are links: what they lead to decides, never what the listing calls them. Plain files are nobody's adapter. */
async function entryKind(runner: Runner, path: string): Promise<"adapter" | "gone" | "other" | { readonly refused: string }> {
  try {
    const stat = await runner.stat(path, READ);
    if (stat === undefined) return "gone";
    return stat.kind === "directory" ? "adapter" : "other";
  } catch (error) {
    return { refused: `an adapter could not be looked at: ${messageOfRefusal(error)}` };
  }
}

function messageOfRefusal(error: unknown): string {
  if (!(error instanceof RunnerError) || error.kind === "aborted") throw error;
  return error.message;
}

/** Names by their numbers, not by their text: mlx5_2 before mlx5_10. */
export function byNumber(a: string, b: string): number {
  const left = a.match(/\d+|\D+/g) ?? [];
  const right = b.match(/\d+|\D+/g) ?? [];
  for (const [at, part] of left.entries()) {
    const other = right[at];
    if (other === undefined) return 1;
    const difference = Number(part) - Number(other);
    if (Number.isFinite(difference) && difference !== 0) return difference;
    if (part !== other) return part < other ? -1 : 1;
  }
  return left.length - right.length;
}

interface Failure {
  readonly file: string;
  readonly kind: RunnerErrorKind;
  readonly words: string;
}

/** Reads below one adapter's folder and keeps what failed. */
class AdapterReader {
  readonly failures: Failure[] = [];
  readonly folder: string;
  private readonly runner: Runner;
  private hung = false;

  constructor(runner: Runner, folder: string) {
    this.runner = runner;
    this.folder = folder;
  }

  text(file: string): Promise<string | undefined> {
    return this.look(file, (path) => readText(this.runner, path, READ));
  }

  list(file: string): Promise<readonly string[] | undefined> {
    return this.look(file, (path) => this.runner.listDir(path, READ));
  }

  realPath(file: string): Promise<string | undefined> {
    return this.look(file, (path) => this.runner.realPath(path, READ));
  }

  link(file: string): Promise<string | undefined> {
    return this.look(file, (path) => this.runner.readLink(path));
  }

  private async look<T>(file: string, how: (path: string) => Promise<T | undefined>): Promise<T | undefined> {
    // Each read that hangs holds a thread for good. One is enough to know.
    if (this.hung) return undefined;
    const path = `${this.folder}/${file}`;
    try {
      return await how(path);
    } catch (error) {
      if (!(error instanceof RunnerError) || error.kind === "aborted") throw error;
      if (error.kind === "timeout") this.hung = true;
      this.failures.push({ file, kind: error.kind, words: error.message.replace(`${path}: `, "") });
      return undefined;
    }
  }
}

interface ReadAdapter {
  readonly adapter: FoundAdapter;
  readonly warnings: readonly string[];
}

async function readAdapter(runner: Runner, root: string, name: string, compare: boolean): Promise<ReadAdapter> {
  const reader = new AdapterReader(runner, `${root}/${name}`);
  const device = await reader.realPath("device");
  const [dangling, firmware, boardId, nodeGuid, numaNode, netdevs, portNames, physicalFunction] = await Promise.all([
    device === undefined ? reader.link("device") : undefined,
    reader.text("fw_ver"),
    reader.text("board_id"),
    reader.text("node_guid"),
    device === undefined ? undefined : reader.text("device/numa_node"),
    device === undefined ? undefined : reader.list("device/net"),
    reader.list("ports"),
    device === undefined || !compare ? undefined : reader.realPath("device/physfn"),
  ]);
  const ports = await readPorts(reader, portNumbers(portNames ?? []), compare);
  const hca = compact({
    name,
    numa_node: parseNumaNode(numaNode ?? ""),
    firmware: parseLine(firmware ?? ""),
    board_id: parseLine(boardId ?? ""),
    node_guid: parseNodeGuid(nodeGuid ?? ""),
    pci_bus_id: busIdOf(device),
    netdevs: (netdevs ?? []).toSorted(),
    ports: ports.map((one) => one.port),
  });
  const lidMaskCounts = new Map(ports.map(({ port, lidMaskCount }) => [port.num, lidMaskCount]));
  return {
    adapter: { hca, physicalFunction: busIdOf(physicalFunction), lidMaskCounts },
    warnings: [
      ...(dangling === undefined
        ? []
        : [`adapter ${printable(name)}: its device link leads nowhere, so its place on the bus is not known`]),
      ...failureWarning(name, reader.failures),
    ],
  };
}

/** The last part of a resolved `device` link, when that is a PCI function: some adapters sit on other buses. */
function busIdOf(path: string | undefined): string | undefined {
  return path === undefined ? undefined : parseBusId(path.slice(path.lastIndexOf("/") + 1));
}

/** Ports are folders named by their number, from 1 (a switch has 0); whatever else lies there is none. */
function portNumbers(names: readonly string[]): readonly number[] {
  return names
    .filter((name) => /^(?:0|[1-9]\d{0,4})$/.test(name))
    .map(Number)
    .sort((a, b) => a - b);
}

interface ReadPort {
  readonly port: Port;
  readonly lidMaskCount: number;
}

/** What the kernel remembers first, side by side; then what it asks the driver for, one by one, so that a hung one holds one thread. */
async function readPorts(reader: AdapterReader, numbers: readonly number[], compare: boolean): Promise<readonly ReadPort[]> {
  const remembered = await Promise.all(
    numbers.map((num) => Promise.all([reader.text(`ports/${num}/link_layer`), reader.text(`ports/${num}/gids/0`)])),
  );
  const ports: ReadPort[] = [];
  for (const [at, num] of numbers.entries()) {
    const [linkLayer, gid] = remembered[at] ?? [];
    const asked = async (file: string): Promise<string> => (await reader.text(`ports/${num}/${file}`)) ?? "";
    const port = compact({
      num,
      state: parseStateWord(await asked("state")),
      phys_state: parseStateWord(await asked("phys_state")),
      rate_gbps: parseRate(await asked("rate")),
      link_layer: parseLine(linkLayer ?? ""),
      gid_prefix: parseGidPrefix(gid ?? ""),
      lid: parseLid(await asked("lid")),
      sm_lid: parseLid(await asked("sm_lid")),
    });
    ports.push({ port, lidMaskCount: compare ? parseLidMaskCount(await asked("lid_mask_count")) : 0 });
  }
  return ports;
}

/** One warning for one adapter, however many of its files failed. */
function failureWarning(name: string, failures: readonly Failure[]): readonly string[] {
  // Reads side by side fail in any order; the text must not.
  const told = failures.filter((failure) => !isUsual(failure)).sort((a, b) => byNumber(a.file, b.file));
  if (told.length === 0) return [];
  const hung = told.find((failure) => failure.kind === "timeout");
  if (hung !== undefined) {
    return [
      `adapter ${printable(name)} does not answer: ${hung.file}: ${TIMEOUT_MS / 1000} s have passed, so what else it says is not known`,
    ];
  }
  const reasons = new Map<string, string[]>();
  for (const { file, words } of told) reasons.set(words, [...(reasons.get(words) ?? []), file]);
  const parts = [...reasons].map(([words, files]) => `${listed(files)} (${printable(words)})`);
  return [`adapter ${printable(name)}: not readable: ${parts.join("; ")}`];
}

/** `rate` fails with EINVAL while nothing is plugged in (linux-rdma/rdma-core#239), always on Azure MANA; a GID slot may when it is empty. */
function isUsual(failure: Failure): boolean {
  return failure.kind === "io" && /\/(?:rate|gids\/0)$/.test(failure.file);
}

/** The first line; a fixture of prometheus/procfs holds a blank second one. Blank (`fw_ver` of EFA) is unknown. */
export function parseLine(text: string): string | undefined {
  const line = (text.split("\n")[0] ?? "").trim();
  return line === "" ? undefined : printable(line);
}

/** As printed: four groups of four digits. A zero GUID is what an unconfigured function says, and is told. */
export function parseNodeGuid(text: string): string | undefined {
  return /^\s*([0-9a-f]{4}(?::[0-9a-f]{4}){3})\s*$/i.exec(text)?.[1];
}

/** `4: ACTIVE` → `ACTIVE`, `5: LinkUp` → `LinkUp`. Words that nobody told us pass through. */
export function parseStateWord(text: string): string | undefined {
  const word = /^\s*\d{1,3}:[ \t]*(.+)/.exec(text)?.[1];
  return word === undefined ? undefined : parseLine(word);
}

/** `400 Gb/sec (4X NDR)` → 400; one decimal at most (`2.5`). Anything else is unknown, not 0. A port that is down shows a placeholder. */
export function parseRate(text: string): number | undefined {
  const found = /^\s*(\d{1,6}(?:\.\d{1,3})?) Gb\/sec/.exec(text);
  return found === null ? undefined : Number(found[1]);
}

/** `0x32` → 50. 0xffff, "none assigned", stays 65535; Omni-Path's LIDs exceed 16 bits. */
export function parseLid(text: string): number | undefined {
  const found = /^\s*0x([0-9a-f]{1,8})\s*$/i.exec(text);
  return found === null ? undefined : Number.parseInt(found[1] ?? "", 16);
}

/** The first half of a GID: four groups of four digits, as the kernel prints it. An empty slot is all zeros: no GID, no prefix. */
export function parseGidPrefix(text: string): string | undefined {
  const gid = /^\s*((?:[0-9a-f]{4}:){3}[0-9a-f]{4})(?::[0-9a-f]{4}){4}\s*$/i.exec(text);
  return gid === null || /^[0:]*$/.test(gid[1] ?? "") ? undefined : gid[1]?.toLowerCase();
}

/** LMC, 0 to 7; 0, "one LID", when it is not told. */
function parseLidMaskCount(text: string): number {
  return /^\s*[0-7]\s*$/.test(text) ? Number(text) : 0;
}
