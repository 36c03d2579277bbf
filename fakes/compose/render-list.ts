/** `nvidia-smi -L`. */
import type { CardDescription, InstanceDescription } from "./description.ts";

export function renderList(cards: readonly CardDescription[]): string {
  const known = cards.filter((card) => card.unknownToDriver !== true);
  return known.map((card, index) => (card.lost === true ? `${handleSentence(card)}\n` : renderCard(card, index))).join("");
}

function renderCard(card: CardDescription, index: number): string {
  const instances = card.mig?.current === "Enabled" ? card.mig.instances : [];
  const lines = instances.map((instance) => (card.mig?.oldForm === true ? oldInstance(card, instance) : newInstance(instance)));
  return [`GPU ${index}: ${card.name} (UUID: ${card.uuid})`, ...lines].map((line) => `${line}\n`).join("");
}

/** The profile is padded, the index right-aligned. */
function newInstance(instance: InstanceDescription): string {
  return `  MIG ${instance.profile.padEnd(11)} Device ${String(instance.device).padStart(2)}: (UUID: ${instance.uuid})`;
}

function oldInstance(card: CardDescription, instance: InstanceDescription): string {
  const uuid = `MIG-${card.uuid}/${instance.gpuInstanceId}/${instance.computeInstanceId}`;
  return `  MIG ${instance.profile} Device ${instance.device}: (UUID: ${uuid})`;
}

/** What the tool says of a card whose handle the driver does not give. */
export function handleSentence(card: CardDescription): string {
  return `Unable to determine the device handle for GPU${card.busId.toUpperCase()}: GPU is lost.  Reboot the system to recover this GPU`;
}
