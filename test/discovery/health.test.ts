import { expect, test } from "bun:test";
import { cardProblems } from "../../src/discovery/health.ts";
import { parseQuery } from "../../src/discovery/nvidia-smi/query.ts";
import { queryText } from "../support/smi-texts.ts";

function problems(more: string, card: { readonly mig?: string } = {}): readonly string[] {
  const [found] = parseQuery(queryText([{ n: 0, more, ...card }])).cards;
  if (found?.readable !== true) throw new Error("not read");
  return cardProblems(found);
}

test("a card that says nothing bad is healthy", () => {
  expect(problems("")).toEqual([]);
  expect(
    problems("<remapped_rows>N/A</remapped_rows><gpu_recovery_action>None</gpu_recovery_action><fabric><state>N/A</state></fabric>"),
  ).toEqual([]);
});

test("a card whose part cannot be read is not healthy", () => {
  const text = queryText([{ n: 0 }]);
  const [card] = parseQuery(text.slice(0, text.indexOf("<pci>"))).cards;
  expect(card === undefined ? undefined : cardProblems(card)).toEqual([
    "its state is not known: its part of nvidia-smi -q -x cannot be read",
  ]);
});

test("what the driver asks for is said", () => {
  expect(problems("<gpu_recovery_action>Node Reboot</gpu_recovery_action>")).toEqual([
    "the driver asks for a recovery action: Node Reboot",
  ]);
  expect(
    problems(
      "<gpu_reset_status><reset_required>Yes</reset_required><drain_and_reset_recommended>Yes</drain_and_reset_recommended></gpu_reset_status>",
    ),
  ).toEqual(["the driver asks for a reset", "the driver recommends to drain and reset"]);
});

test("present memory faults are problems and history is none", () => {
  const rows = (pending: string, failure: string): string =>
    `<remapped_rows><remapped_row_pending>${pending}</remapped_row_pending><remapped_row_failure>${failure}</remapped_row_failure></remapped_rows>`;
  expect(problems(rows("No", "No"))).toEqual([]);
  expect(problems(rows("Yes", "Yes"))).toEqual([
    "row remapping failed: the card can return wrong data and should be replaced",
    "row remapping waits for a reset",
  ]);
  expect(problems("<retired_pages><pending_blacklist>Yes</pending_blacklist></retired_pages>")).toEqual([
    "page retirement waits for a reset",
  ]);
  const errors = (kind: string): string => `<ecc_errors><${kind}><dram_uncorrectable>4</dram_uncorrectable></${kind}></ecc_errors>`;
  expect(problems(errors("volatile"))).toEqual(["4 uncorrectable ECC errors since the last reset"]);
  expect(problems(errors("aggregate"))).toEqual([]);
  expect(
    problems(
      "<ecc_errors><aggregate><sram_threshold_exceeded>Yes</sram_threshold_exceeded></aggregate><channel_repair_pending>Yes</channel_repair_pending><tpc_repair_pending>Yes</tpc_repair_pending></ecc_errors>",
    ),
  ).toEqual([
    "the threshold of uncorrectable SRAM errors is exceeded: the card should be replaced",
    "memory channel repair waits for a reset",
    "TPC repair waits for a reset",
  ]);
});

test("slowdown by the hardware is a problem and by the software none; the cause is said once", () => {
  const reasons = (...names: readonly string[]): string =>
    `<clocks_event_reasons>${names.map((name) => `<clocks_event_reason_${name}>Active</clocks_event_reason_${name}>`).join("")}</clocks_event_reasons>`;
  expect(problems(reasons("sw_power_cap", "sw_thermal_slowdown", "gpu_idle"))).toEqual([]);
  expect(problems(reasons("hw_slowdown", "hw_thermal_slowdown"))).toEqual(["slowed by the hardware for heat (41 C)"]);
  expect(problems(reasons("hw_slowdown", "hw_power_brake_slowdown"))).toEqual([
    "slowed by the external power brake: the server cannot feed the card",
  ]);
  expect(problems(reasons("hw_slowdown"))).toEqual(["slowed by the hardware (41 C)"]);
});

test("a MIG mode that is about to change is a problem either way", () => {
  expect(problems("", { mig: "Disabled/Enabled" })).toEqual(["MIG mode is disabled and will be enabled after the next reset"]);
  expect(problems("", { mig: "Enabled/Disabled" })).toEqual(["MIG mode is enabled and will be disabled after the next reset"]);
  expect(problems("", { mig: "N/A/N/A" })).toEqual([]);
});

test("an NVLink fabric that is not joined is a problem; its status counts once it is completed", () => {
  const fabric = (state: string, status: string, summary = "N/A"): string =>
    `<fabric><state>${state}</state><status>${status}</status><health><summary>${summary}</summary></health></fabric>`;
  expect(problems(fabric("In Progress", "N/A"))).toEqual([
    "NVLink fabric registration is not completed (In Progress): CUDA programs hang or fail",
  ]);
  expect(problems(fabric("Completed", "Success", "Healthy"))).toEqual([]);
  expect(problems(fabric("Completed", "Success", "Unhealthy"))).toEqual(["NVLink fabric health is Unhealthy"]);
  expect(problems(fabric("Completed", "Insufficient Resources"))).toEqual(["NVLink fabric registration failed: Insufficient Resources"]);
});

test("errors in place of values are problems, and a value that does not exist is none", () => {
  expect(problems("<fan_speed>Unknown Error</fan_speed><x>Not Supported</x>")).toEqual([
    'the driver answers "Unknown Error" for some values',
  ]);
  expect(problems("<x>GPU requires reset</x>")).toEqual(['the driver answers "GPU requires reset" for some values']);
});

test("a card in a mode that lets nothing run is not healthy", () => {
  const text = queryText([{ n: 0 }]).replace("Default", "Prohibited");
  const [card] = parseQuery(text).cards;
  expect(card === undefined ? [] : cardProblems(card)).toEqual(["compute mode is Prohibited: no CUDA program can start"]);
});
