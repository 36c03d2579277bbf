/** One node as people read it: everything about it. Pure. Loaded when it is asked for: lists need none of it. */
import type { Inventory } from "../../domain/inventory.ts";
import type { LoadSample } from "../../domain/load-sample.ts";
import { painter } from "../../lib/color.ts";
import { renderTable } from "../../lib/table.ts";
import type { NodeDetail } from "../../protocol/api.ts";
import { renderFindings } from "../render-doctor.ts";
import { renderInventory } from "../render-inventory.ts";
import { ageText, factLines, stateText, timeText } from "./words.ts";

export function renderNode({ node, inventory, inventory_revision, findings, load }: NodeDetail, nowMs: number, color: boolean): string {
  const paint = painter(color);
  const when = (time: string | undefined): string | undefined =>
    time === undefined ? undefined : `${timeText(time)} (${ageText(time, nowMs) ?? "-"} ago)`;
  const facts = factLines([
    ["cordoned", node.cordoned ? (node.cordon_reason ?? "without a reason") : undefined],
    ["joined", when(node.joined_at)],
    ["last seen", when(node.last_seen_at) ?? "never"],
    ["address", node.mgmt_addr],
    ["agent", node.agent_version],
    ["hardware", node.machine === undefined ? undefined : `the recorded machine ${node.machine} stands for it`],
    ["inventory", inventory_revision === undefined ? "not sent yet" : `revision ${inventory_revision}`],
  ]);
  const connection = node.connected ? "connected" : "not connected";
  const sections = [
    [`${node.node_id}: ${stateText(node.state, paint)}, ${connection}`, ...facts.map((line) => `  ${line}`)].join("\n"),
    ...(inventory === undefined ? [] : [renderInventory(inventory, { color, gpus: "all" })]),
    findings === undefined
      ? "Findings: not sent yet"
      : `Findings\n${indent(renderFindings(inventory, findings, { color, migModes: knownModes(inventory) }))}`,
    ...(load === undefined || load.devices.length === 0 ? [] : [renderLoad(load, inventory)]),
  ];
  return sections.join("\n\n");
}

/** Cards that have instances are in MIG mode; of the others an inventory does not say. */
export function knownModes(inventory: Inventory | undefined): ReadonlyMap<number, "on"> {
  return new Map((inventory?.gpus ?? []).flatMap((gpu) => (gpu.mig === undefined ? [] : [[gpu.mig.card, "on"] as const])));
}

function renderLoad(load: LoadSample, inventory: Inventory | undefined): string {
  const gpus = new Map((inventory?.gpus ?? []).map((gpu) => [gpu.uuid, gpu]));
  const unit = (value: number | undefined, name: string): string | undefined => (value === undefined ? undefined : `${value} ${name}`);
  const table = renderTable(
    [
      { title: "IDX" },
      { title: "CLASS" },
      { title: "USED", align: "right" },
      { title: "MEM", align: "right" },
      { title: "BUSY", align: "right" },
      { title: "TEMP", align: "right" },
      { title: "POWER", align: "right" },
    ],
    load.devices.map((device) => {
      const gpu = gpus.get(device.uuid);
      return [
        gpu?.label ?? device.uuid,
        gpu?.class,
        unit(device.memory_used_mb, "MiB"),
        unit(gpu?.memory_total_mb, "MiB"),
        unit(device.utilization_pct, "%"),
        unit(device.temperature_c, "°C"),
        unit(device.power_w, "W"),
      ];
    }),
  );
  return `Load at ${timeText(load.at)}, by the node's clock\n${indent(table)}`;
}

function indent(text: string): string {
  return text
    .split("\n")
    .map((line) => (line === "" ? "" : `  ${line}`))
    .join("\n");
}
