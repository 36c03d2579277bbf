/**
 * Which fabric an adapter is on. agent.yaml says so, never a guess: two fabrics that nobody configured look alike in every number. What is
 * observed can only prove a declaration wrong, and then it is told (reference: OpenSM's default prefix; openucx/ucx#605, #4913). Pure.
 */
import type { FabricDeclaration } from "../domain/agent-config.ts";
import { parseBusId } from "../domain/bus-id.ts";
import { contradictions, type FabricMember } from "../domain/fabric-rules.ts";
import type { Hca } from "../domain/inventory.ts";
import { listed } from "../lib/printable.ts";

/** An adapter with what only the comparison of fabrics needs. */
export interface FoundAdapter {
  readonly hca: Hca;
  /** Bus id of the physical function when this one is virtual. */
  readonly physicalFunction: string | undefined;
  /** LMC by port number: the port owns 2^LMC LIDs from its own on. */
  readonly lidMaskCounts: ReadonlyMap<number, number>;
}

export interface LabelledAdapters {
  readonly hcas: readonly Hca[];
  readonly warnings: readonly string[];
}

/** Writes the declared fabric into each adapter's ports. An adapter that is declared on two fabrics gets neither: a wrong one is worse. */
export function labelFabrics(found: readonly FoundAdapter[], fabrics: readonly FabricDeclaration[]): LabelledAdapters {
  const labels = new Map<FoundAdapter, Set<string>>();
  const warnings: string[] = [];
  for (const fabric of fabrics) {
    const missing: string[] = [];
    for (const entry of fabric.adapters) {
      const meant = matching(found, entry);
      if (meant.length === 0) missing.push(entry);
      for (const adapter of meant) labels.set(adapter, (labels.get(adapter) ?? new Set()).add(fabric.name));
    }
    if (missing.length > 0) warnings.push(`fabric "${fabric.name}" in agent.yaml: no adapter ${listed(missing)} on this node`);
  }
  for (const [{ hca }, names] of labels) {
    if (names.size > 1) {
      const both = [...names].map((name) => `"${name}"`).join(" and ");
      warnings.push(`adapter ${hca.name} is declared on the fabrics ${both} in agent.yaml: it is taken to be on neither`);
    }
  }
  const fabricOf = (adapter: FoundAdapter): string | undefined => {
    const [name, second] = labels.get(adapter) ?? [];
    return second === undefined ? name : undefined;
  };
  for (const name of new Set(fabrics.map((fabric) => fabric.name))) {
    const proofs = contradictions(members(found.filter((adapter) => fabricOf(adapter) === name)));
    warnings.push(...proofs.map((text) => `fabric "${name}" in agent.yaml: ${text}`));
  }
  return { hcas: found.map((adapter) => withFabric(adapter.hca, fabricOf(adapter))), warnings };
}

function withFabric(hca: Hca, fabric: string | undefined): Hca {
  return fabric === undefined ? hca : { ...hca, ports: hca.ports.map((port) => ({ ...port, fabric })) };
}

/** By name, else by PCI id, else by node GUID. */
function matching(found: readonly FoundAdapter[], entry: string): readonly FoundAdapter[] {
  const named = found.filter(({ hca }) => hca.name === entry);
  if (named.length > 0) return named;
  const busId = parseBusId(entry);
  if (busId !== undefined) return forTraffic(found.filter(({ hca }) => hca.pci_bus_id === busId));
  const guid = parseGuid(entry);
  if (guid === undefined) return [];
  return forTraffic(found.filter(({ hca }) => hca.node_guid !== undefined && parseGuid(hca.node_guid) === guid));
}

/**
 * At XDR a ConnectX-8 shows `smi1`, for management, beside `mlx5_0` on the same function and with the same GUID; it has no GIDs
 * (Mellanox/rdmamap#17). A declaration of the function means the adapter that carries traffic.
 */
function forTraffic(sharing: readonly FoundAdapter[]): readonly FoundAdapter[] {
  const withGids = sharing.filter(({ hca }) => hca.ports.some((port) => port.gid_prefix !== undefined));
  return sharing.length > 1 && withGids.length > 0 ? withGids : sharing;
}

/** `a088:c203:0074:cfda`, `a088c2030074cfda` or `0xa088c2030074cfda` → 16 digits. A zero GUID (EFA, idle virtual functions) names nobody. */
function parseGuid(text: string): string | undefined {
  const found = /^(?:0x)?([0-9a-f]{16})$/.exec(text.trim().toLowerCase().replaceAll(":", ""));
  return found === null || /^0+$/.test(found[1] ?? "") ? undefined : found[1];
}

/** Only ACTIVE ports count, see there. */
function members(adapters: readonly FoundAdapter[]): readonly FabricMember[] {
  return adapters.flatMap((adapter) =>
    adapter.hca.ports
      .filter((port) => port.state === "ACTIVE")
      .map((port) => ({
        name: `${adapter.hca.name} port ${port.num}`,
        link_layer: port.link_layer,
        gid_prefix: port.gid_prefix,
        lid: port.lid,
        sm_lid: port.sm_lid,
        lid_mask_count: adapter.lidMaskCounts.get(port.num),
        part_of: cardOf(adapter),
        may_share: adapter.physicalFunction !== undefined,
      })),
  );
}

/** Domain, bus and device: all functions of one card. */
function cardOf(adapter: FoundAdapter): string | undefined {
  return (adapter.physicalFunction ?? adapter.hca.pci_bus_id)?.replace(/\.\d$/, "");
}
