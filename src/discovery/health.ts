/** What is wrong with a card, in words: anything here keeps new work away from it. Pure. */
import type { RawCard } from "./nvidia-smi/query.ts";

/**
 * Health problems that one look at a card shows, most serious first. Aggregate ECC counters are history and no problem;
 * software thermal slowdown and power capping are everyday states under load; IMEX and other processes are not health.
 * Sources: nvidia-smi(1) of driver 580; NVIDIA GPU memory error management guide.
 */
export function cardProblems(card: RawCard): readonly string[] {
  if (!card.readable) return ["its state is not known: its part of nvidia-smi -q -x cannot be read"];
  return [
    ...recoveryProblems(card),
    ...memoryProblems(card),
    ...slowdownProblems(card),
    ...migModeProblems(card),
    ...fabricProblems(card),
    ...(card.computeMode?.toLowerCase() === "prohibited" ? ["compute mode is Prohibited: no CUDA program can start"] : []),
    ...card.errorTexts.filter((text) => !/not in ready state/i.test(text)).map((text) => `the driver answers "${text}" for some values`),
  ];
}

/** The recovery action (570 on) says more than the reset flags (535 to 570): where both are there, it is enough. */
function recoveryProblems(card: RawCard): readonly string[] {
  if (card.recoveryAction !== undefined && card.recoveryAction.toLowerCase() !== "none") {
    return [`the driver asks for a recovery action: ${card.recoveryAction}`];
  }
  return [
    ...(card.resetRequired === true ? ["the driver asks for a reset"] : []),
    ...(card.drainAndResetRecommended === true ? ["the driver recommends to drain and reset"] : []),
  ];
}

function memoryProblems(card: RawCard): readonly string[] {
  const { ecc, remappedRows } = card;
  const problems: string[] = [];
  if (remappedRows?.failure === true) problems.push("row remapping failed: the card can return wrong data and should be replaced");
  if (remappedRows?.pending === true) problems.push("row remapping waits for a reset");
  if (card.retiredPagesPending === true) problems.push("page retirement waits for a reset");
  if (ecc.volatileUncorrectable !== undefined && ecc.volatileUncorrectable > 0) {
    problems.push(`${ecc.volatileUncorrectable} uncorrectable ECC errors since the last reset`);
  }
  if (ecc.sramThresholdExceeded === true)
    problems.push("the threshold of uncorrectable SRAM errors is exceeded: the card should be replaced");
  if (ecc.channelRepairPending === true) problems.push("memory channel repair waits for a reset");
  if (ecc.tpcRepairPending === true) problems.push("TPC repair waits for a reset");
  return problems;
}

function slowdownProblems(card: RawCard): readonly string[] {
  const { hwThermal, hwPowerBrake, hwSlowdown } = card.clockReasons;
  const at = card.temperatureC === undefined ? "" : ` (${card.temperatureC} C)`;
  if (hwThermal === true || hwPowerBrake === true) {
    return [
      ...(hwThermal === true ? [`slowed by the hardware for heat${at}`] : []),
      ...(hwPowerBrake === true ? ["slowed by the external power brake: the server cannot feed the card"] : []),
    ];
  }
  return hwSlowdown === true ? [`slowed by the hardware${at}`] : [];
}

function migModeProblems(card: RawCard): readonly string[] {
  const { migCurrent, migPending } = card;
  if (migCurrent === undefined || migPending === undefined || migCurrent === migPending) return [];
  return [`MIG mode is ${migCurrent} and will be ${migPending} after the next reset`];
}

function fabricProblems(card: RawCard): readonly string[] {
  const fabric = card.fabric;
  if (fabric === undefined) return [];
  const state = fabric.state.toLowerCase();
  if (state !== "completed") return [`NVLink fabric registration is not completed (${fabric.state}): CUDA programs hang or fail`];
  const problems: string[] = [];
  if (fabric.status !== undefined && fabric.status.toLowerCase() !== "success") {
    problems.push(`NVLink fabric registration failed: ${fabric.status}`);
  }
  const summary = fabric.healthSummary?.toLowerCase();
  if (summary === "unhealthy" || summary === "limited capacity") problems.push(`NVLink fabric health is ${fabric.healthSummary}`);
  return problems;
}
