/** Where cards sit on the bus and which adapters are near them, from sysfs: for what `nvidia-smi topo -m` does not say. */
import type { Hca } from "../domain/inventory.ts";
import type { Runner } from "../platform/runner.ts";
import type { CardPlace } from "./cards.ts";
import { discoverPci, nearestAdapters } from "./pci.ts";

/** Places of cards by bus id. Cards that the kernel does not know are left out. */
export async function discoverPlaces(
  runner: Runner,
  cards: readonly string[],
  hcas: readonly Hca[],
): Promise<ReadonlyMap<string, CardPlace>> {
  if (cards.length === 0) return new Map();
  const places = await discoverPci(runner, [...cards, ...hcas.flatMap((hca) => hca.pci_bus_id ?? [])]);
  const adapters = hcas.map((hca) => ({ name: hca.name, place: hca.pci_bus_id === undefined ? undefined : places.get(hca.pci_bus_id) }));
  return new Map(
    cards.flatMap((busId) => {
      const place = places.get(busId);
      if (place === undefined) return [];
      return [[busId, { numa_node: place.numaNode, cpu_affinity: place.cpuList, nearest_hcas: nearestAdapters(place, adapters) }] as const];
    }),
  );
}
