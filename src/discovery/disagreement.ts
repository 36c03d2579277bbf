/** Where two sources are at hand: a device of which they say different things is a problem, nobody chooses. Pure. */
import type { Gpu } from "../domain/inventory.ts";
import type { Devices } from "./cards.ts";

/** The devices of NVML, with a health problem where nvidia-smi's text contradicts. Devices that only the text knows are added. */
export function withDisagreements(nvml: Devices, text: Devices): Devices {
  const checked = nvml.gpus.map((gpu) => withProblems(gpu, differences(gpu, sameDevice(text.gpus, gpu))));
  const known = new Set(nvml.unusable_cards.map((card) => card.index));
  const onlyText = text.gpus.filter((gpu) => sameDevice(nvml.gpus, gpu) === undefined && !known.has(gpu.mig?.card ?? gpu.index));
  const added = onlyText.map((gpu) => withProblems(gpu, ["nvidia-smi shows this device and NVML does not"]));
  return { ...nvml, gpus: [...checked, ...added].sort((a, b) => order(a) - order(b)) };
}

function order(gpu: Gpu): number {
  return gpu.mig === undefined ? gpu.index * 1000 : gpu.mig.card * 1000 + 1 + gpu.mig.instance;
}

function sameDevice(gpus: readonly Gpu[], gpu: Gpu): Gpu | undefined {
  return gpus.find((other) => other.label === gpu.label);
}

function withProblems(gpu: Gpu, problems: readonly string[]): Gpu {
  return problems.length === 0 ? gpu : { ...gpu, health: { ok: false, problems: [...gpu.health.problems, ...problems] } };
}

function differences(gpu: Gpu, other: Gpu | undefined): readonly string[] {
  if (other === undefined) return ["NVML shows this device and nvidia-smi does not"];
  const pairs: readonly (readonly [string, unknown, unknown])[] = [
    ["UUID", gpu.uuid, other.uuid],
    ["PCI bus id", gpu.pci_bus_id, other.pci_bus_id],
    ["MIG profile", gpu.mig?.profile, other.mig?.profile],
    ["GPU instance", gpu.mig?.gpu_instance_id, other.mig?.gpu_instance_id],
    ["compute instance", gpu.mig?.compute_instance_id, other.mig?.compute_instance_id],
  ];
  return pairs
    .filter(([, ours, theirs]) => ours !== undefined && theirs !== undefined && ours !== theirs)
    .map(([what, ours, theirs]) => `NVML and nvidia-smi disagree on its ${what}: ${String(ours)} and ${String(theirs)}`);
}
