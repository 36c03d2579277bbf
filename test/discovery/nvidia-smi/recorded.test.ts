/** What real machines printed, where the recordings lie beside the repository; they are never copied into it. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { cardProblems } from "../../../src/discovery/health.ts";
import { explainFailure, type FailureKind } from "../../../src/discovery/nvidia-smi/failure.ts";
import { parseList } from "../../../src/discovery/nvidia-smi/list.ts";
import { parseQuery, type RawCard } from "../../../src/discovery/nvidia-smi/query.ts";
import { nearestNics, parseTopology } from "../../../src/discovery/nvidia-smi/topology.ts";

const FOLDER = join(import.meta.dir, "../../../../shared/recorded/nvidia-smi");
const cases = existsSync(FOLDER) ? readdirSync(FOLDER).filter((name) => existsSync(join(FOLDER, name, "case.json"))) : [];

/** In the recordings' notes `null` is "the tool shows no value", which the code calls `undefined`. */
const Text = v.pipe(
  v.nullish(v.string()),
  v.transform((text) => text ?? undefined),
);
const Count = v.pipe(
  v.nullish(v.number()),
  v.transform((count) => count ?? undefined),
);

const ListExpect = v.object({
  gpus: v.array(
    v.object({
      index: v.number(),
      name: v.string(),
      uuid: v.string(),
      mig: v.optional(v.array(v.object({ device: v.number(), profile: v.string(), uuid: v.string(), giId: Count, ciId: Count })), []),
    }),
  ),
});

const Fabric = v.object({
  state: Text,
  status: Text,
  cliqueId: Text,
  clusterUuid: Text,
  health: v.optional(v.record(v.string(), Text), {}),
});

const QueryExpect = v.object({
  driverVersion: Text,
  cudaVersion: Text,
  attachedGpus: Count,
  gpuCount: v.number(),
  gpus: v.array(
    v.object({
      busId: v.string(),
      uuid: Text,
      name: v.string(),
      memoryTotalMiB: Count,
      memoryUsedMiB: Count,
      minorNumber: Count,
      migMode: v.nullish(v.object({ current: Text, pending: Text })),
      ecc: v.nullish(v.object({ current: Text, pending: Text })),
      virtualizationMode: Text,
      mig: v.optional(v.array(v.object({ index: v.number(), giId: Count, ciId: Count, memoryTotalMiB: Count, smCount: Count })), []),
      processes: Count,
      fabric: v.nullish(Fabric),
      problems: v.optional(v.array(v.string()), []),
    }),
  ),
});

const TopologyExpect = v.object({
  nics: v.optional(v.array(v.string()), []),
  gpus: v.array(
    v.object({
      index: v.number(),
      peers: v.record(v.string(), v.string()),
      nvlink: v.record(v.string(), v.number()),
      nicDistances: v.record(v.string(), v.string()),
      nearest: v.nullish(v.object({ distance: v.string(), nics: v.array(v.string()) })),
      cpuAffinity: Text,
      numaAffinity: Text,
      gpuNumaId: Text,
    }),
  ),
});

const Case = v.object({ expect: v.record(v.string(), v.unknown()) });

function read(name: string, file: string): string | undefined {
  const path = join(FOLDER, name, file);
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}

function expected(name: string): Readonly<Record<string, unknown>> {
  return v.parse(Case, JSON.parse(read(name, "case.json") ?? "")).expect;
}

function each(file: string, look: (name: string, text: string) => void): void {
  for (const name of cases) {
    const text = read(name, file);
    if (text !== undefined) look(name, text);
  }
}

test.skipIf(cases.length === 0)("every recorded nvidia-smi -L is read as a careful person reads it", () => {
  each("L.txt", (name, text) => {
    const { gpus } = v.parse(ListExpect, expected(name).L ?? expected(name));
    const report = parseList(text);
    expect({ name, warnings: report.warnings, inaccessible: report.inaccessible }).toStrictEqual({ name, warnings: [], inaccessible: [] });
    expect({ name, cards: report.cards }).toStrictEqual({
      name,
      cards: gpus.map((gpu) => ({
        index: gpu.index,
        name: gpu.name.trim(),
        uuid: gpu.uuid,
        instances: gpu.mig.map((mig) => ({
          device: mig.device,
          profile: mig.profile,
          uuid: mig.uuid,
          gpuInstanceId: mig.giId,
          computeInstanceId: mig.ciId,
          oldForm: mig.giId !== undefined,
        })),
      })),
    });
  });
});

/** The notes' words for what is wrong, from the parsed card. */
function problemWords(card: RawCard): readonly string[] {
  const { volatileUncorrectable, aggregateUncorrectable } = card.ecc;
  return [
    ...(card.remappedRows.failure === true ? ["row-remap-failure"] : []),
    ...(card.remappedRows.pending === true ? ["row-remap-pending"] : []),
    ...(card.lost ? ["gpu-lost"] : []),
    ...(volatileUncorrectable !== undefined && volatileUncorrectable > 0 ? [`ecc-uncorrectable-volatile:${volatileUncorrectable}`] : []),
    ...(aggregateUncorrectable !== undefined && aggregateUncorrectable > 0
      ? [`ecc-uncorrectable-aggregate:${aggregateUncorrectable}`]
      : []),
    ...(card.fabric !== undefined && card.fabric.state !== "Completed" ? ["fabric-not-completed"] : []),
  ];
}

test.skipIf(cases.length === 0)("every recorded nvidia-smi -q -x is read as a careful person reads it", () => {
  each("q-x.xml", (name, text) => {
    const told = v.parse(QueryExpect, expected(name)["q-x"] ?? expected(name));
    const report = parseQuery(text);
    expect({ name, ...report, cards: report.cards.length }).toStrictEqual({
      name,
      driverVersion: told.driverVersion,
      cudaVersion: told.cudaVersion,
      attachedGpus: told.attachedGpus,
      cards: told.gpuCount,
      warnings: [],
    });
    for (const [at, gpu] of told.gpus.entries()) {
      const card = report.cards[at];
      if (card === undefined) throw new Error(`${name}: card ${at} is missing`);
      expect({
        name,
        busId: card.busId,
        uuid: card.uuid,
        product: card.name,
        memory: [card.memoryTotalMb, card.memoryUsedMb],
        minor: card.minor,
        mig: [card.migCurrent, card.migPending],
        ecc: [card.ecc.current, card.ecc.pending],
        virtualization: card.virtualizationMode,
        problems: problemWords(card),
      }).toStrictEqual({
        name,
        busId: gpu.busId,
        uuid: gpu.uuid,
        product: gpu.name,
        memory: [gpu.memoryTotalMiB, gpu.memoryUsedMiB],
        minor: gpu.minorNumber,
        mig: [gpu.migMode?.current, gpu.migMode?.pending].map((mode) => parsedSwitch(mode)),
        ecc: [gpu.ecc?.current, gpu.ecc?.pending].map((mode) => parsedSwitch(mode)),
        virtualization: gpu.virtualizationMode === "None" ? undefined : gpu.virtualizationMode,
        problems: gpu.problems,
      });
      if (gpu.processes !== undefined) expect([name, card.processes?.length ?? 0]).toStrictEqual([name, gpu.processes]);
      expect({
        name,
        instances: card.migDevices.map((mig) => [mig.index, mig.gpuInstanceId, mig.computeInstanceId, mig.memoryTotalMb, mig.smCount]),
      }).toStrictEqual({ name, instances: gpu.mig.map((mig) => [mig.index, mig.giId, mig.ciId, mig.memoryTotalMiB, mig.smCount]) });
      expect({ name, fabric: card.fabric }).toStrictEqual({
        name,
        fabric:
          gpu.fabric?.state === undefined
            ? undefined
            : {
                state: gpu.fabric.state,
                status: gpu.fabric.status,
                cliqueId: gpu.fabric.cliqueId === undefined ? undefined : Number(gpu.fabric.cliqueId),
                clusterUuid: gpu.fabric.clusterUuid,
                healthSummary: gpu.fabric.health.summary,
                health: wordsOf(gpu.fabric.health),
              },
      });
    }
  });
});

/** The words told under `health`, beside the summary; "None" is one of the tool's ways to tell nothing. */
function wordsOf(health: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  const told = Object.entries(health).flatMap(([tag, word]) =>
    word === undefined || word === "None" || tag === "summary" ? [] : [[tag, word] as const],
  );
  return Object.fromEntries(told);
}

function parsedSwitch(word: string | undefined): "enabled" | "disabled" | undefined {
  return word === "Enabled" ? "enabled" : word === "Disabled" ? "disabled" : undefined;
}

test.skipIf(cases.length === 0)("a recorded card with no present problem in its notes is healthy", () => {
  each("q-x.xml", (name, text) => {
    const told = v.parse(QueryExpect, expected(name)["q-x"] ?? expected(name));
    for (const [at, gpu] of told.gpus.entries()) {
      const present = gpu.problems.filter((word) => !word.startsWith("ecc-uncorrectable-aggregate"));
      const card = parseQuery(text).cards[at];
      if (card !== undefined && present.length === 0) expect([name, at, cardProblems(card)]).toStrictEqual([name, at, []]);
      if (card !== undefined && present.length > 0)
        expect([name, at, card.lost || cardProblems(card).length > 0]).toStrictEqual([name, at, true]);
    }
  });
});

test.skipIf(cases.length === 0)("every recorded nvidia-smi topo -m is read as a careful person reads it", () => {
  each("topo-m.txt", (name, text) => {
    const told = expected(name).topo;
    if (told === undefined || read(name, "topo-m.exit.txt") !== undefined) return;
    const { gpus, nics } = v.parse(TopologyExpect, told);
    const report = parseTopology(text);
    expect({ name, nics: report.nics, warnings: report.warnings }).toStrictEqual({ name, nics, warnings: [] });
    expect({ name, cards: report.cards }).toStrictEqual({
      name,
      cards: gpus.map((gpu) => ({
        index: gpu.index,
        links: gpu.peers,
        nvlinks: gpu.nvlink,
        nics: gpu.nicDistances,
        cpuAffinity: gpu.cpuAffinity,
        numaAffinity: gpu.numaAffinity,
        gpuNumaId: gpu.gpuNumaId,
      })),
    });
    for (const [at, gpu] of gpus.entries()) {
      const card = report.cards[at];
      const near = card === undefined ? undefined : nearestNics(card);
      const far = gpu.nearest?.distance === "SYS" || gpu.nearest?.distance === "SOC";
      const nearest = gpu.nearest === null || gpu.nearest === undefined || far ? undefined : gpu.nearest;
      expect([name, at, near?.distance, near?.names.toSorted()]).toStrictEqual([name, at, nearest?.distance, nearest?.nics.toSorted()]);
    }
  });
});

const KINDS: Readonly<Record<string, FailureKind>> = {
  "driver-library-mismatch": "library-mismatch",
  "gpu-lost": "card-lost",
  "gpu-handle": "card-lost",
  "no-devices": "no-devices",
  "driver-not-loaded": "no-driver",
  "nvml-unknown-error": "nvml-error",
  usage: "usage",
};

test.skipIf(cases.length === 0)("every recorded failure is explained in the tool's own words", () => {
  each("stdout.txt", (name, text) => {
    // Where the source does not tell the code, it reads "unknown": 255 is the tool's code for everything else.
    const exit = Number(read(name, "exit.txt"));
    const failure = explainFailure(Number.isInteger(exit) ? exit : 255, text, "");
    const kind = KINDS[String(expected(name).failure)];
    expect({ name, kind: failure?.kind, usable: failure?.usable, text: failure?.text }).toStrictEqual({
      name,
      kind,
      usable: false,
      text: text.trim().split("\n").slice(0, 2).join(" "),
    });
    const { busId } = expected(name);
    if (typeof busId === "string") expect([name, failure?.busId]).toStrictEqual([name, busId]);
  });
});
