/** `nvidia-smi -L`: index, name and UUID of each card, profile and UUID of each MIG instance. Seen with drivers 384 to 610. */
import { printable } from "../../lib/printable.ts";

export interface ListedInstance {
  /** MIG device index on its card; indexes may have holes. */
  readonly device: number;
  readonly profile: string;
  readonly uuid: string;
  /** Ids, only in the UUID form of drivers before R470: `MIG-GPU-<uuid>/<gi>/<ci>`. */
  readonly gpuInstanceId: number | undefined;
  readonly computeInstanceId: number | undefined;
  readonly oldForm: boolean;
}

export interface ListedCard {
  readonly index: number;
  readonly name: string;
  readonly uuid: string | undefined;
  readonly instances: readonly ListedInstance[];
}

/** A card that is named only in an error sentence. */
export interface InaccessibleCard {
  readonly index: number | undefined;
  /** As printed. */
  readonly busId: string | undefined;
  /** The tool's own words, one line. */
  readonly text: string;
}

export interface ListReport {
  readonly cards: readonly ListedCard[];
  readonly inaccessible: readonly InaccessibleCard[];
  readonly warnings: readonly string[];
}

/** The name may hold parentheses and end in blanks, so the last `(UUID: ` counts. Some sources mask digits of a UUID. */
const CARD = /^GPU (\d{1,4}): (.*)\(UUID: ([^()]*)\)\s*$/;
const INSTANCE = /^\s*MIG\s+(\S+)\s+Device\s+(\d{1,3}): \(UUID: (MIG-[^()\s]+)\)\s*$/;
const OLD_UUID = /^MIG-GPU-[^/]+\/(\d{1,3})\/(\d{1,3})$/;
const UUID = /^(?:GPU-)?[0-9a-zA-Z*]{8}(?:-[0-9a-zA-Z*]{4}){3}-[0-9a-zA-Z*]{12}$/;
/** Masked to another length: at least one character that no UUID has. */
const MASKED_UUID = /^(?:GPU-)?(?=.*[xX*\u2026])[0-9a-fA-FxX*.\u2026-]{4,64}$/;
/** What is left of a line whose end was cut off. */
const REMNANT = /^(?:G|GP|GPU|GPU \d.*|GPU )$|^\s+(?:M|MI|MIG|MIG\s.*)$|^MIG\s|^Unable to determine the device handle/;
/** Three shapes: `for GPU 0000:0B:00.0: …`, `for GPU0000:17:00.0: …` (glued), `for GPU1: 0000:34:00.0: …` (index, then bus id). */
const HANDLE =
  /^Unable to determine the device handle for (?:gpu )?GPU\s?(?:(\d{1,3}): ?)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])(?::.*)?$/i;

/** Parses the whole output. Never throws; what it does not know is left out, and a line that was cut off is named. */
export function parseList(text: string): ListReport {
  const cards: (ListedCard & { readonly instances: ListedInstance[] })[] = [];
  const inaccessible: InaccessibleCard[] = [];
  const warnings: string[] = [];
  // The card that instances below belong to: none after a card's line that was left out, since they are not of the card before it.
  let parent: (ListedCard & { readonly instances: ListedInstance[] }) | undefined;
  for (const line of text.split(/\r?\n/)) {
    const instance = parseInstance(line);
    const card = parseCard(line);
    const handle = parseHandle(line);
    if (instance !== undefined) {
      if (parent === undefined) warnings.push(`nvidia-smi -L lists a MIG instance below no card that can be read: ${shown(line)}`);
      else if (parent.instances.some((other) => other.device === instance.device)) {
        warnings.push(`nvidia-smi -L lists MIG instance ${parent.index}/mig${instance.device} twice; the first counts`);
      } else parent.instances.push(instance);
    } else if (card !== undefined) {
      parent = cards.some((other) => other.index === card.index) ? undefined : { ...card, instances: [] };
      if (parent === undefined) warnings.push(`nvidia-smi -L lists card ${card.index} twice; the first counts`);
      else cards.push(parent);
    } else if (handle !== undefined) {
      if (!inaccessible.some((other) => other.busId === handle.busId)) inaccessible.push(handle);
      parent = undefined;
    } else if (REMNANT.test(line)) {
      warnings.push(`nvidia-smi -L: a line that cannot be read was left out: ${shown(line)}`);
      if (/^[GU]/.test(line)) parent = undefined;
    }
  }
  return { cards, inaccessible, warnings: capped(warnings) };
}

const MAX_WARNINGS = 20;

function capped(warnings: readonly string[]): readonly string[] {
  if (warnings.length <= MAX_WARNINGS) return warnings;
  return [...warnings.slice(0, MAX_WARNINGS), `nvidia-smi -L: ${warnings.length - MAX_WARNINGS} more lines cannot be read`];
}

function parseCard(line: string): Omit<ListedCard, "instances"> | undefined {
  const found = CARD.exec(line);
  if (found === null) return undefined;
  const uuid = (found[3] ?? "").trim();
  return { index: Number(found[1]), name: printable((found[2] ?? "").trim()), uuid: isUuid(uuid) ? uuid : undefined };
}

function parseInstance(line: string): ListedInstance | undefined {
  const found = INSTANCE.exec(line);
  if (found === null) return undefined;
  const [, profile = "", device = "", uuid = ""] = found;
  const old = OLD_UUID.exec(uuid);
  if (old === null && !isUuid(uuid.slice("MIG-".length))) return undefined;
  return {
    device: Number(device),
    profile,
    uuid,
    gpuInstanceId: old === null ? undefined : Number(old[1]),
    computeInstanceId: old === null ? undefined : Number(old[2]),
    oldForm: old !== null,
  };
}

function isUuid(text: string): boolean {
  return UUID.test(text) || MASKED_UUID.test(text);
}

/** The sentence about a card whose handle the driver does not give, wherever it stands. */
export function parseHandle(line: string): InaccessibleCard | undefined {
  const found = HANDLE.exec(line.trim());
  if (found === null) return undefined;
  return { index: found[1] === undefined ? undefined : Number(found[1]), busId: found[2], text: shown(line) };
}

function shown(line: string): string {
  return printable(line.trim());
}
