/**
 * `cards.json` in the state folder: every card that was ever here, by its place on the bus. A card that dies so thoroughly that the bus does
 * not list it any more is otherwise never missed. Whoever takes one out on purpose removes the file.
 */
import * as v from "valibot";
import type { Facts } from "../doctor/facts.ts";
import type { Inventory } from "../domain/inventory.ts";
import type { Log } from "../lib/log.ts";
import { messageOf } from "../lib/user-error.ts";
import { readWholeFile, writeWholeFile } from "../platform/state-files.ts";

const KnownCard = v.object({ pci_bus_id: v.string(), name: v.string(), class: v.optional(v.string()), last_seen_at: v.string() });
type KnownCard = v.InferOutput<typeof KnownCard>;
const CardsFile = v.object({ version: v.literal(1), cards: v.array(KnownCard) });

export function cardsFile(stateDir: string): string {
  return `${stateDir}/cards.json`;
}

/** `undefined` when nothing is remembered, or cannot be read: then no card is missed. */
export async function readKnownCards(file: string): Promise<Facts["remembered"]> {
  try {
    const text = await readWholeFile(file);
    const checked = text === undefined ? undefined : v.safeParse(CardsFile, JSON.parse(text));
    return checked?.success === true ? { file, cards: checked.output.cards } : undefined;
  } catch {
    return undefined;
  }
}

/** Adds the cards of an inventory, and writes when there is one more or a day has gone by. */
export async function rememberCards(file: string, inventory: Inventory, now: Date, log: Log): Promise<void> {
  const before = new Map(((await readKnownCards(file))?.cards ?? []).map((card) => [card.pci_bus_id, card]));
  const after = new Map(before);
  const today = now.toISOString().slice(0, 10);
  for (const { pci_bus_id, name, class: device, mig } of inventory.gpus) {
    if (pci_bus_id === undefined || before.get(pci_bus_id)?.last_seen_at.slice(0, 10) === today) continue;
    // An instance's class says what it is and not what its card is.
    after.set(pci_bus_id, { pci_bus_id, name, ...(mig === undefined ? { class: device } : {}), last_seen_at: now.toISOString() });
  }
  if (JSON.stringify([...after]) === JSON.stringify([...before])) return;
  try {
    await writeWholeFile(file, `${JSON.stringify({ version: 1, cards: [...after.values()] satisfies KnownCard[] })}\n`, { mode: 0o600 });
  } catch (error) {
    log.warn("the cards could not be written down", { problem: messageOf(error) });
  }
}
