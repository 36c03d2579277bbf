/** The cards as every source knows them, joined by bus id: what checks on cards go through. Pure. */
import { joinCards } from "../discovery/cards.ts";
import type { ListedCard } from "../discovery/nvidia-smi/list.ts";
import type { RawCard } from "../discovery/nvidia-smi/query.ts";
import { parseBusId } from "../domain/bus-id.ts";
import type { Subject } from "../domain/finding.ts";
import { classifyCard } from "../domain/gpu-class.ts";
import { compact } from "../lib/compact.ts";
import type { Verdict } from "./check.ts";
import { type Facts, known, type PciFunction } from "./facts.ts";

export interface CardFacts {
  readonly index: number | undefined;
  readonly uuid: string | undefined;
  readonly busId: string | undefined;
  readonly name: string | undefined;
  readonly class: string | undefined;
  readonly minor: number | undefined;
  readonly raw: RawCard | undefined;
  readonly listed: ListedCard | undefined;
  readonly pci: PciFunction | undefined;
  /** Why the driver gives nothing about it, when it names the card only to say so. */
  readonly lostReason: string | undefined;
  /** agent.yaml says to leave it alone. */
  readonly leftAlone: boolean;
}

/** NVIDIA's cards on the bus that are ours: one that is handed to a virtual machine (vfio) is not. */
export function busCards(facts: Facts): readonly PciFunction[] {
  return (known(facts.pci) ?? []).filter((one) => /^030[02]$/.test(one.classCode) && !/^(vfio|pci-stub)/.test(one.driver ?? ""));
}

export function cardsOf(facts: Facts): readonly CardFacts[] {
  const { nvidia, proc } = facts;
  const found: CardFacts[] = joinCards(nvidia.list, nvidia.query).map(({ index, listed, raw }) =>
    cardOf(facts, { index, listed, raw, busId: raw === undefined ? busIdOf(facts, listed) : parseBusId(raw.busId) }),
  );
  const has = (busId: string | undefined, index: number | undefined): boolean =>
    found.some((card) => (busId !== undefined && card.busId === busId) || (index !== undefined && card.index === index));
  for (const lost of [...nvidia.lostCards, ...facts.inventory.unusable_cards]) {
    if (has(lost.pci_bus_id, lost.index)) continue;
    found.push({
      ...cardOf(facts, { index: lost.index, busId: lost.pci_bus_id }),
      uuid: lost.uuid,
      name: lost.name,
      lostReason: lost.reason,
    });
  }
  // A list without bus ids next to a bus of unknown cards: nothing tells which is which, so none is counted twice.
  const nameless = found.some((card) => card.busId === undefined);
  const others = nameless ? [] : [...busCards(facts).map((one) => one.busId), ...(proc?.cards ?? []).map((one) => one.busId)];
  for (const busId of new Set(others)) if (!has(busId, undefined)) found.push(cardOf(facts, { busId }));
  return found.toSorted((a, b) => (a.index ?? 1e6) - (b.index ?? 1e6) || ((a.busId ?? "") < (b.busId ?? "") ? -1 : 1));
}

/** A card that only the list knows has no bus id there; the module's own list joins it by UUID. */
function busIdOf(facts: Facts, listed: ListedCard | undefined): string | undefined {
  return listed === undefined ? undefined : facts.proc?.cards.find((card) => card.uuid !== undefined && card.uuid === listed.uuid)?.busId;
}

function cardOf(
  facts: Facts,
  from: {
    readonly index?: number | undefined;
    readonly busId: string | undefined;
    readonly listed?: ListedCard | undefined;
    readonly raw?: RawCard | undefined;
  },
): CardFacts {
  const { raw, listed, busId, index } = from;
  const inProc = facts.proc?.cards.find((card) => card.busId === busId && busId !== undefined);
  const name = raw?.name ?? listed?.name ?? inProc?.model;
  const uuid = raw?.uuid ?? listed?.uuid ?? inProc?.uuid;
  return {
    index,
    uuid,
    busId,
    name,
    class: name === undefined ? undefined : classifyCard(name, raw?.memoryTotalMb).class,
    minor: raw?.minor ?? inProc?.minor,
    raw,
    listed,
    pci: (known(facts.pci) ?? []).find((one) => one.busId === busId && busId !== undefined),
    lostReason: undefined,
    leftAlone: (facts.config.discovery?.skip_gpus ?? []).some(
      (entry) => entry === String(index) || entry === uuid || (busId !== undefined && parseBusId(entry) === busId),
    ),
  };
}

export function subjectOf(card: CardFacts): Subject {
  return { kind: "gpu", ...compact({ uuid: card.uuid, index: card.index, pci_bus_id: card.busId }) };
}

/** How people name it: `card 3`, or its bus id while it has no index. */
export function nameOf(card: CardFacts): string {
  return card.index === undefined ? `card ${card.busId ?? card.uuid ?? "-"}` : `card ${card.index}`;
}

/** What nvidia-smi's `-i` takes. */
export function selector(card: CardFacts): string {
  return card.index === undefined ? (card.busId ?? card.uuid ?? "?") : String(card.index);
}

export function inMig(card: CardFacts): boolean {
  return card.raw?.migCurrent === "enabled" || (card.listed?.instances.length ?? 0) > 0;
}

/** MIG mode of each card that can have instances, by index. */
export function migModes(facts: Facts): ReadonlyMap<number, "on" | "off"> {
  return new Map(
    cardsOf(facts).flatMap((card) => {
      if (card.index === undefined || (card.raw?.migCurrent === undefined && !inMig(card))) return [];
      return [[card.index, inMig(card) ? "on" : "off"] as const];
    }),
  );
}

/** Judges each card that the driver described; the others are `unknown` for it, with the reason. */
export function perCard(facts: Facts, judge: (card: CardFacts, raw: RawCard) => Verdict | readonly Verdict[]): readonly Verdict[] {
  const cards = cardsOf(facts);
  if (cards.length === 0) return [noCards(facts)];
  return cards.flatMap((card): readonly Verdict[] => {
    const subject = subjectOf(card);
    if (card.raw === undefined || !card.raw.readable || card.raw.lost) {
      const why = card.lostReason ?? facts.nvidia.queryProblem ?? "the driver does not describe it";
      return [{ result: "unknown", subject, message: `${nameOf(card)}: ${why}` }];
    }
    const verdicts = judge(card, card.raw);
    return "result" in verdicts ? [{ subject, ...verdicts }] : verdicts.map((verdict) => ({ subject, ...verdict }));
  });
}

export function noCards(facts: Facts): Verdict {
  if (cardsOf(facts).length > 0) return { result: "unknown", message: "the driver describes no card" };
  return facts.inventory.source === "unavailable"
    ? { result: "unknown", message: "the driver lists no card" }
    : { result: "skipped", message: "no NVIDIA card on this node" };
}
