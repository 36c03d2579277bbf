/**
 * Which fabric an adapter is on. agent.yaml says so, never a guess: two fabrics that nobody configured look alike in every number. What is
 * observed can only prove a declaration wrong, and then it is told (reference: OpenSM's default prefix; openucx/ucx#605, #4913). Pure.
 */
import type { FabricDeclaration } from "../domain/agent-config.ts";
import { parseBusId } from "../domain/bus-id.ts";
import type { Hca, Port } from "../domain/inventory.ts";
import { listed, printable } from "../lib/printable.ts";

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
    warnings.push(...contradictions(name, activePorts(found.filter((adapter) => fabricOf(adapter) === name))));
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

interface ActivePort {
  readonly adapter: FoundAdapter;
  readonly port: Port;
}

/** Only these count: a dead port keeps its last LID and SM LID (leptonai/gpud#482). */
function activePorts(adapters: readonly FoundAdapter[]): readonly ActivePort[] {
  return adapters.flatMap((adapter) => adapter.hca.ports.filter((port) => port.state === "ACTIVE").map((port) => ({ adapter, port })));
}

/** What proves that ports declared on one fabric are not on one. That nothing differs proves nothing, and is not said. */
function contradictions(fabric: string, ports: readonly ActivePort[]): readonly string[] {
  const infiniband = ports.filter(({ port }) => port.link_layer === "InfiniBand");
  const at = `fabric "${fabric}" in agent.yaml:`;
  return [
    ...differing(ports, (port) => port.link_layer).map((groups) => `${at} its link layers differ (${groups}), so it is not one fabric`),
    ...differing(infiniband, (port) => port.gid_prefix).map((groups) => `${at} its GID prefixes differ (${groups}): different subnets`),
    ...differing(infiniband, (port) => (port.sm_lid ? `SM LID ${port.sm_lid}` : undefined)).map(
      (groups) => `${at} its subnet managers differ (${groups}): different subnets, unless one is handing over to another at this moment`,
    ),
    ...sharedLids(infiniband).map(
      ({ lid, names }) => `${at} LID ${lid} is given to both ${names}: a LID is unique in a subnet, so these are different subnets`,
    ),
  ];
}

/** `value: ports; value: ports` when there is more than one value; ports without a value say nothing. */
function differing(ports: readonly ActivePort[], keyOf: (port: Port) => string | undefined): readonly string[] {
  const groups = new Map<string, string[]>();
  for (const active of ports) {
    const value = keyOf(active.port);
    if (value !== undefined) groups.set(value, [...(groups.get(value) ?? []), portName(active)]);
  }
  if (groups.size < 2) return [];
  return [[...groups].map(([value, names]) => `${printable(value)}: ${names.join(", ")}`).join("; ")];
}

/** LIDs that two ports own, a virtual function beside others of its card left out: those may share one. */
function sharedLids(ports: readonly ActivePort[]): readonly { readonly lid: number; readonly names: string }[] {
  const owners = ports.flatMap((active) => {
    const first = active.port.lid;
    // Neither is an address: 0 is what Ethernet says, 0xffff a port that has been given none.
    if (first === undefined || first === 0 || first === 0xffff) return [];
    const count = 2 ** (active.adapter.lidMaskCounts.get(active.port.num) ?? 0);
    return [{ active, first, last: first + count - 1 }];
  });
  return owners.flatMap((a, at) =>
    owners
      .slice(at + 1)
      .filter((b) => a.first <= b.last && b.first <= a.last && !sharesCardVirtually(a.active.adapter, b.active.adapter))
      .map((b) => ({ lid: Math.max(a.first, b.first), names: `${portName(a.active)} and ${portName(b.active)}` })),
  );
}

function sharesCardVirtually(a: FoundAdapter, b: FoundAdapter): boolean {
  if (a.physicalFunction === undefined && b.physicalFunction === undefined) return false;
  const card = cardOf(a);
  return card !== undefined && card === cardOf(b);
}

/** Domain, bus and device: all functions of one card. */
function cardOf(adapter: FoundAdapter): string | undefined {
  return (adapter.physicalFunction ?? adapter.hca.pci_bus_id)?.replace(/\.\d$/, "");
}

function portName({ adapter, port }: ActivePort): string {
  return `${adapter.hca.name} port ${port.num}`;
}
