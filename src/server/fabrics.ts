/** Which adapters of which nodes share a declared fabric, and what proves a declaration wrong. Pure. */
import { contradictions, type FabricMember } from "../domain/fabric-rules.ts";
import type { AdapterPlace, InventorySummary } from "../domain/node.ts";
import type { FabricPort, Fabrics, FabricView } from "../protocol/api.ts";

export interface SummarizedNode {
  readonly node_id: string;
  readonly summary?: InventorySummary | undefined;
}

interface PlacedPort {
  readonly node_id: string;
  readonly place: AdapterPlace;
}

/** In the order of the fabrics' names; a fabric's ports in the order of nodes. */
export function fabricViews(nodes: readonly SummarizedNode[]): Fabrics {
  const ports = nodes.flatMap(({ node_id, summary }) => (summary?.ports ?? []).map((place) => ({ node_id, place })));
  const declared = Map.groupBy(
    ports.filter(({ place }) => place.fabric !== undefined),
    ({ place }) => place.fabric ?? "",
  );
  const fabrics = [...declared].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([fabric, members]) => viewOf(fabric, members));
  const undeclared = ports.filter(({ place }) => place.fabric === undefined && place.state === "ACTIVE").map(portOf);
  return { fabrics, undeclared };
}

function viewOf(fabric: string, ports: readonly PlacedPort[]): FabricView {
  const active = ports.filter(({ place }) => place.state === "ACTIVE").map(memberOf);
  return { fabric, ports: ports.map(portOf), contradictions: [...contradictions(active)] };
}

/** What two ports of one node contradict is that node's own warning, and it knows more: which of them are virtual. */
function memberOf({ node_id, place }: PlacedPort): FabricMember {
  return {
    name: `${node_id} ${place.adapter} port ${place.port}`,
    link_layer: place.link_layer,
    gid_prefix: place.gid_prefix,
    lid: place.lid,
    sm_lid: place.sm_lid,
    part_of: node_id,
    may_share: true,
  };
}

function portOf({ node_id, place: { fabric: _fabric, ...place } }: PlacedPort): FabricPort {
  return { node_id, ...place };
}
