/** How busy the devices of a node are at one moment. A key is absent where it is not known. */
import * as v from "valibot";
import { compact } from "../lib/compact.ts";
import type { Inventory } from "./inventory.ts";

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));

export const DeviceLoad = v.object({
  uuid: v.string(),
  memory_used_mb: v.optional(Count),
  utilization_pct: v.optional(Count),
  temperature_c: v.optional(v.number()),
  power_w: v.optional(v.number()),
  ecc_uncorrectable: v.optional(v.pipe(Count, v.description("Uncorrectable memory errors since the driver's last reset of the card"))),
});
export type DeviceLoad = v.InferOutput<typeof DeviceLoad>;

export const LoadSample = v.object({
  at: v.pipe(v.string(), v.description("When it was taken, by the node's clock")),
  devices: v.array(DeviceLoad),
});
export type LoadSample = v.InferOutput<typeof LoadSample>;

/** The load in an inventory. Of an instance only its memory: temperature, power and utilisation are its card's. */
export function loadOf(inventory: Pick<Inventory, "gpus">, at: string): LoadSample {
  return {
    at,
    devices: inventory.gpus.map((gpu) =>
      compact({
        uuid: gpu.uuid,
        memory_used_mb: gpu.memory_used_mb,
        ...(gpu.mig === undefined
          ? { utilization_pct: gpu.utilization_pct, temperature_c: gpu.temperature_c, power_w: gpu.power_w }
          : { utilization_pct: undefined, temperature_c: undefined, power_w: undefined }),
      }),
    ),
  };
}

/** The inventory without what changes from moment to moment: two of one unchanged node are equal. */
export function lastingPart(inventory: Inventory): Inventory {
  return {
    ...inventory,
    gpus: inventory.gpus.map(
      ({ memory_used_mb: _memory, utilization_pct: _use, temperature_c: _heat, power_w: _power, ...lasting }) => lasting,
    ),
    storage: inventory.storage.map(({ free_mb: _free, ...lasting }) => lasting),
  };
}
