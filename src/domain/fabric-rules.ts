/**
 * What proves that ports declared on one fabric are not on one. That nothing differs proves nothing, and is not said: two fabrics that
 * nobody configured look alike in every number (OpenSM's default prefix; openucx/ucx#605, #4913). The same rules for the adapters of one
 * node and for those of a cluster. Pure.
 */
import { printable } from "../lib/printable.ts";

/** An ACTIVE port. A dead one keeps its last LID and SM LID (leptonai/gpud#482) and must be left out. */
export interface FabricMember {
  /** What people see: `mlx5_0 port 1`, `gpu-01 mlx5_0 port 1`. */
  readonly name: string;
  readonly link_layer: string | undefined;
  readonly gid_prefix: string | undefined;
  readonly lid: number | undefined;
  readonly sm_lid: number | undefined;
  /** LMC: the port owns 2^LMC LIDs from its own on. */
  readonly lid_mask_count?: number | undefined;
  /** What it is a part of: a card, or a whole node. */
  readonly part_of?: string | undefined;
  /** Whether it may share its LID with the others of `part_of`, as a virtual function does. */
  readonly may_share?: boolean;
}

/** Sentences without a subject: `its GID prefixes differ (…): different subnets`. */
export function contradictions(ports: readonly FabricMember[]): readonly string[] {
  const infiniband = ports.filter((port) => port.link_layer === "InfiniBand");
  return [
    ...differing(ports, (port) => port.link_layer).map((groups) => `its link layers differ (${groups}), so it is not one fabric`),
    ...differing(infiniband, (port) => port.gid_prefix).map((groups) => `its GID prefixes differ (${groups}): different subnets`),
    ...differing(infiniband, (port) => (port.sm_lid ? `SM LID ${port.sm_lid}` : undefined)).map(
      (groups) => `its subnet managers differ (${groups}): different subnets, unless one is handing over to another at this moment`,
    ),
    ...sharedLids(infiniband).map(
      ({ lid, names }) => `LID ${lid} is given to both ${names}: a LID is unique in a subnet, so these are different subnets`,
    ),
  ];
}

/** More names than these help nobody. */
const SHOWN_NAMES = 6;
/** Two subnets that were taken for one share most of their LIDs: a few show it. */
const SHOWN_LIDS = 6;

/** `value: ports; value: ports` when there is more than one value; ports without a value say nothing. */
function differing(ports: readonly FabricMember[], keyOf: (port: FabricMember) => string | undefined): readonly string[] {
  const groups = new Map<string, string[]>();
  for (const port of ports) {
    const value = keyOf(port);
    if (value === undefined) continue;
    const names = groups.get(value);
    if (names === undefined) groups.set(value, [port.name]);
    else names.push(port.name);
  }
  if (groups.size < 2) return [];
  return [[...groups].map(([value, names]) => `${printable(value)}: ${shortened(names)}`).join("; ")];
}

function shortened(names: readonly string[]): string {
  const more = names.length - SHOWN_NAMES;
  return more <= 0 ? names.join(", ") : `${names.slice(0, SHOWN_NAMES).join(", ")} and ${more} more`;
}

interface Owner {
  readonly port: FabricMember;
  readonly order: number;
  readonly first: number;
  readonly last: number;
}

/** LIDs that two ports own. Sorted by LID, so that ten thousand ports are compared with their neighbours only. */
function sharedLids(ports: readonly FabricMember[]): readonly { readonly lid: number; readonly names: string }[] {
  const owners = ports.flatMap((port, order): readonly Owner[] => {
    // Neither is an address: 0 is what Ethernet says, 0xffff a port that has been given none.
    if (port.lid === undefined || port.lid === 0 || port.lid === 0xffff) return [];
    return [{ port, order, first: port.lid, last: port.lid + 2 ** (port.lid_mask_count ?? 0) - 1 }];
  });
  const found: { lid: number; names: string }[] = [];
  let open: Owner[] = [];
  for (const owner of owners.toSorted((a, b) => a.first - b.first || a.order - b.order)) {
    open = open.filter((before) => before.last >= owner.first);
    for (const before of open) {
      if (found.length >= SHOWN_LIDS) return found;
      const mayShare = owner.port.may_share === true || before.port.may_share === true;
      if (mayShare && owner.port.part_of !== undefined && owner.port.part_of === before.port.part_of) continue;
      const [one, other] = before.order < owner.order ? [before, owner] : [owner, before];
      found.push({ lid: owner.first, names: `${one.port.name} and ${other.port.name}` });
    }
    open.push(owner);
  }
  return found;
}
