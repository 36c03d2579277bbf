/** The stub of NVIDIA's library (fakes/nvml): building it, and writing what it shall answer. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CLOCK_EVENT_BITS, NVML_WORDS } from "../../src/platform/nvml-layout.ts";
import type { NvmlCard, NvmlMigDevice, NvmlProcess, NvmlSnapshot } from "../../src/platform/nvml-snapshot.ts";

export const COMPILER = Bun.which("cc") ?? undefined;
const SOURCE = join(import.meta.dir, "../../fakes/nvml/stub.c");

/** Builds the stub below `folder`, without the symbols named. Returns the library's path. */
export function buildStub(folder: string, without: readonly string[] = []): string {
  if (COMPILER === undefined) throw new Error("there is no C compiler");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, "libnvidia-ml.so.1");
  const flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"];
  // A renamed function is one that the library does not have.
  const absent = without.map((symbol, at) => `-D${symbol}=absent_${at}`);
  const run = Bun.spawnSync({ cmd: [COMPILER, ...flags, ...absent, "-o", path, SOURCE], stderr: "pipe" });
  if (run.exitCode !== 0) throw new Error(`the stub does not build:\n${run.stderr.toString()}`);
  return path;
}

/** Writes a scenario file: what gives this snapshot back, and lines that change it. */
export function writeScenario(folder: string, snapshot: NvmlSnapshot, more: Readonly<Record<string, string | number>> = {}): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, "scenario.txt");
  const changed = { ...scenario(snapshot), ...more };
  writeFileSync(
    path,
    `${Object.entries(changed)
      .map(([key, value]) => `${key}=${value}`)
      .join("\n")}\n`,
  );
  return path;
}

type Lines = Readonly<Record<string, string | number | undefined>>;

/** A snapshot as lines for the stub: reading them through the library gives the snapshot again. */
export function scenario(snapshot: NvmlSnapshot): Readonly<Record<string, string | number>> {
  const [major, minor] = (snapshot.cuda_version ?? "").split(".").map(Number);
  const system: Lines = {
    count: snapshot.cards.length,
    driver_version: snapshot.driver_version,
    nvml_version: snapshot.nvml_version,
    cuda: major === undefined || minor === undefined ? undefined : major * 1000 + minor * 10,
  };
  const cards = snapshot.cards.map((card) => prefixed(`gpu.${card.index}`, cardLines(card)));
  const names = snapshot.cards.flatMap((card) => [
    ...(card.processes ?? []),
    ...(card.mig_devices ?? []).flatMap((mig) => mig.processes ?? []),
  ]);
  const processes = Object.fromEntries(names.map((process) => [`process.${process.pid}`, process.name]));
  return known(Object.assign({}, system, processes, ...cards));
}

function known(lines: Lines): Readonly<Record<string, string | number>> {
  return Object.fromEntries(Object.entries(lines).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])));
}

function prefixed(prefix: string, lines: Lines): Lines {
  return Object.fromEntries(Object.entries(lines).map(([key, value]) => [`${prefix}.${key}`, value]));
}

function cardLines(card: NvmlCard): Lines {
  const { ecc, remapped_rows: rows, fabric, mig_mode: mig } = card;
  const links = Object.fromEntries(
    (card.nvlinks ?? []).map((link) => [
      `link.${link.link}`,
      [
        link.active ? 1 : 0,
        link.remote_type === undefined ? "-" : numberOf(NVML_WORDS.linkRemote, link.remote_type),
        link.remote_bus_id ?? "",
      ].join(","),
    ]),
  );
  const devices = (card.mig_devices ?? []).map((device) => prefixed(`mig.${device.slot}`, migLines(device)));
  return Object.assign(
    {
      handle: card.error?.symbol === "nvmlDeviceGetHandleByIndex_v2" ? card.error.code : undefined,
      name: card.name,
      uuid: card.uuid,
      bus_id: card.pci_bus_id,
      minor: card.minor,
      capability: card.compute_capability?.replace(".", ","),
      memory: memoryLine(card),
      mig_mode: mig === undefined ? undefined : `${onOff(mig.current)},${onOff(mig.pending)}`,
      mig_slots: card.max_mig_devices,
      temperature: card.temperature_c,
      "field.186": card.power_w === undefined ? undefined : `1:${Math.round(card.power_w * 1000)}`,
      "field.230": card.recovery_action === undefined ? undefined : `1:${numberOf(NVML_WORDS.recoveryAction, card.recovery_action)}`,
      power_limit: card.power_limit_w === undefined ? undefined : Math.round(card.power_limit_w * 1000),
      utilization: card.utilization_pct,
      ecc_mode: ecc?.current === undefined || ecc.pending === undefined ? undefined : `${onOff(ecc.current)},${onOff(ecc.pending)}`,
      ecc_volatile: ecc?.volatile_uncorrected,
      ecc_aggregate: ecc?.aggregate_uncorrected,
      sram_exceeded: flag(ecc?.sram_threshold_exceeded),
      repair:
        ecc?.channel_repair_pending === undefined ? undefined : `${flag(ecc.channel_repair_pending)},${flag(ecc.tpc_repair_pending) ?? 0}`,
      remapped: rows === undefined ? undefined : [rows.corrected, rows.uncorrected, flag(rows.pending), flag(rows.failure)].join(","),
      retired_pending: flag(card.retired_pages_pending),
      clock_reasons: card.clock_event_reasons?.reduce<bigint>((mask, reason) => mask | clockBit(reason), 0n).toString(),
      compute_mode: optional(NVML_WORDS.computeMode, card.compute_mode),
      persistence: card.persistence_mode === undefined ? undefined : onOff(card.persistence_mode),
      virtualization: optional(NVML_WORDS.virtualizationMode, card.virtualization_mode),
      "pcie.gen_current": card.pcie?.gen_current,
      "pcie.gen_max": card.pcie?.gen_max,
      "pcie.width_current": card.pcie?.width_current,
      "pcie.width_max": card.pcie?.width_max,
      fabric:
        fabric === undefined
          ? undefined
          : [
              numberOf(NVML_WORDS.fabricState, fabric.state),
              fabric.status ?? 0,
              fabric.clique_id ?? 0,
              fabric.health_mask ?? 0,
              numberOf(NVML_WORDS.fabricHealth, fabric.health_summary ?? 0),
              (fabric.cluster_uuid ?? "").replaceAll("-", "").padEnd(32, "0"),
            ].join(","),
      link_field: Number(card.compute_capability?.split(".")[0]) >= 9 ? 1 : undefined,
      ...processLines(card.processes),
    },
    links,
    ...devices,
  );
}

function migLines(device: NvmlMigDevice): Lines {
  const slices = [device.sm_count, device.gpu_instance_slices, device.compute_instance_slices, device.memory_size_mb];
  return {
    name: device.name,
    uuid: device.uuid,
    gi: device.gpu_instance_id,
    ci: device.compute_instance_id,
    memory: memoryLine(device),
    attributes: slices.includes(undefined) ? undefined : slices.join(","),
    sram_uncorrected: device.sram_uncorrected,
    ...processLines(device.processes),
  };
}

function memoryLine(record: Pick<NvmlCard, "memory_total_bytes" | "memory_used_bytes" | "memory_free_bytes">): string | undefined {
  const { memory_total_bytes: total, memory_used_bytes: used, memory_free_bytes: free } = record;
  return total === undefined ? undefined : [total, used ?? 0, free ?? 0].join(",");
}

function processLines(processes: readonly NvmlProcess[] | undefined): Lines {
  if (processes === undefined) return {};
  const list = (...types: readonly NvmlProcess["type"][]): string =>
    processes
      .filter((process) => types.includes(process.type))
      .map((process) =>
        [
          process.pid,
          process.memory_used_bytes ?? "-",
          process.gpu_instance_id ?? 0xffffffff,
          process.compute_instance_id ?? 0xffffffff,
        ].join(":"),
      )
      .join(";");
  return { processes: list("compute", "compute+graphics"), graphics: list("graphics", "compute+graphics"), mps: list("mps") };
}

function onOff(value: "enabled" | "disabled"): number {
  return value === "enabled" ? 1 : 0;
}

function flag(value: boolean | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}

function clockBit(reason: string | number): bigint {
  const names: readonly (string | number)[] = CLOCK_EVENT_BITS;
  const bit = names.indexOf(reason);
  return bit < 0 ? BigInt(reason) : 1n << BigInt(bit);
}

function optional(words: Readonly<Record<number, string>>, word: string | number | undefined): number | undefined {
  return word === undefined ? undefined : numberOf(words, word);
}

function numberOf(words: Readonly<Record<number, string>>, word: string | number): number {
  if (typeof word === "number") return word;
  const found = Object.entries(words).find(([, known]) => known === word);
  if (found === undefined) throw new Error(`"${word}" is no word of the table`);
  return Number(found[0]);
}
