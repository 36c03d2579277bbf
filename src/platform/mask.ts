/**
 * Takes out of a recording what names a person, a site or a single piece of hardware: serial numbers, UUIDs, GUIDs, host and user
 * names, network addresses. Each is replaced by a made-up one of the same form, the same one everywhere, so that a recording still
 * joins: what was equal stays equal, what was different stays different. All zeros and the default GID prefix say something and stay.
 */

export interface MaskSubjects {
  /** Whole ones; their first parts are replaced too. */
  readonly hostnames: readonly string[];
  /** Users whose names stand in paths and process names. */
  readonly users: readonly string[];
}

export interface Mask {
  /** Replaces in a text. Call it for everything of one recording, in any order. */
  text(original: string): string;
}

const HEX4 = "[0-9a-fA-F]{4}";
const UUID = new RegExp(`${"[0-9a-fA-F]{8}"}-${HEX4}-${HEX4}-${HEX4}-${"[0-9a-fA-F]{12}"}`, "g");
/** A GID: eight groups. Its first half is the subnet prefix and stays, its second half names the port. */
const GID = new RegExp(`\\b((?:${HEX4}:){4})(${HEX4}(?::${HEX4}){3})\\b`, "g");
/** A node or port GUID: four groups, not part of a longer row of groups. */
const GUID = new RegExp(`(?<![0-9a-fA-F:])(${HEX4}(?::${HEX4}){3})(?![0-9a-fA-F:])`, "g");
const LONG_GUID = /\b0x([0-9a-fA-F]{16})\b/g;
const IPV4 = /(?<![\d.])(?!127\.|0\.)(?:\d{1,3}\.){3}\d{1,3}(?![\d.])/g;
const MAC = /(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![0-9a-fA-F:])/g;
/** Interface names that udev makes of a hardware address: enx…, rocex…, ibx…. */
const NAMED_BY_ADDRESS = /\b((?:en|wl|ib|roce|iw)x)([0-9a-f]{12,16})\b/g;
const XML_SERIALS = /(<(serial|board_serial|chassis_serial_number|pdi|gpu_fabric_guid|ib_guid|rack_guid)>)([^<]+)(<\/\2>)/g;
const HOME = /(\/home\/|\/Users\/|[A-Za-z]:\\Users\\)([A-Za-z0-9_][A-Za-z0-9._-]*)/g;

/** Stands in the names of UEFI's own variables, the same on every machine. */
const EFI_VENDOR = "8be4df61-93ca-11d2-aa0d-00e098032b8c";

export function createMask(subjects: MaskSubjects): Mask {
  const uuids = counter((n) => `00000000-0000-4000-8000-${hex(n, 12)}`);
  const guids = counter((n) => `0200:0000:0000:${hex(n, 4)}`);
  const longGuids = counter((n) => hex(0x0200_0000_0000 + n, 16));
  const addresses = counter((n) => `192.0.2.${((n - 1) % 254) + 1}${n > 254 ? `.${n}` : ""}`);
  const macs = counter((n) => `02:00:00:00:${hex(n >> 8, 2)}:${hex(n & 0xff, 2)}`);
  const byAddress = counter((n) => hex(0x0200_0000_0000 + n, 12));
  const serials = new Map<string, string>();
  const users = counter((n) => `user-${n}`);
  const words = wordReplacements(subjects, users);
  return {
    text: (original) => {
      let text = original.replace(
        XML_SERIALS,
        (_all, open: string, _tag, value: string, close: string) => `${open}${serial(value, serials)}${close}`,
      );
      text = text.replace(UUID, (found) => (isZero(found) || found.toLowerCase() === EFI_VENDOR ? found : uuids(found.toLowerCase())));
      text = text.replace(GID, (all, prefix: string, port: string) => (isZero(port) ? all : `${prefix}${guids(port.toLowerCase())}`));
      text = text.replace(GUID, (found) => (isZero(found) ? found : guids(found.toLowerCase())));
      text = text.replace(LONG_GUID, (all, digits: string) => (isZero(digits) ? all : `0x${longGuids(digits.toLowerCase())}`));
      text = text.replace(MAC, (found) => (isZero(found) ? found : macs(found.toLowerCase())));
      text = text.replace(NAMED_BY_ADDRESS, (_all, kind: string, digits: string) => `${kind}${byAddress(digits)}`);
      text = text.replace(IPV4, (found) => (looksLikeVersion(found) ? found : addresses(found)));
      text = text.replace(HOME, (_all, folder: string, name: string) => `${folder}${users(name)}`);
      for (const [pattern, replacement] of words) text = text.replace(pattern, replacement);
      return text;
    },
  };
}

function wordReplacements(subjects: MaskSubjects, users: (name: string) => string): readonly (readonly [RegExp, string])[] {
  const list: (readonly [RegExp, string])[] = [];
  const hosts = counter((n) => `host-${n}`);
  for (const name of subjects.hostnames.map((host) => host.trim())) {
    const short = name.split(".")[0] ?? "";
    if (!isNobodys(name)) list.push([wholeWord(name), hosts(short)]);
    if (short !== name && !isNobodys(short)) list.push([wholeWord(short), hosts(short)]);
  }
  for (const user of subjects.users) if (!isNobodys(user)) list.push([wholeWord(user), users(user)]);
  return list;
}

/**
 * Names that tell nobody apart, and words that stand in every path and answer of a GPU node: a user called nvidia would otherwise turn
 * /proc/driver/nvidia into a path that nobody asks for.
 */
function isNobodys(name: string): boolean {
  return /^(|root|localhost|\(none\)|nvidia|cuda|gpus?|mlx[45]?|infiniband|ib|nvlink|imex|mig|node|host|user|home|hub|models|llmgw)$/i.test(
    name,
  );
}

function wholeWord(text: string): RegExp {
  return new RegExp(`(?<![A-Za-z0-9_])${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![A-Za-z0-9_])`, "g");
}

function counter(make: (n: number) => string): (original: string) => string {
  const known = new Map<string, string>();
  const made = new Set<string>();
  let next = 1;
  return (original) => {
    // What this mask made itself is masked already: masking twice changes nothing.
    if (made.has(original)) return original;
    const found = known.get(original);
    if (found !== undefined) return found;
    const replacement = make(next++);
    known.set(original, replacement);
    made.add(replacement);
    return replacement;
  };
}

/** Same length and kind of characters, numbered. "N/A", "0" and other words that are no serial number stay. */
function serial(value: string, known: Map<string, string>): string {
  const trimmed = value.trim();
  if (!/\d/.test(trimmed) || isZero(trimmed.replace(/^0x/i, ""))) return value;
  const found = known.get(trimmed);
  if (found !== undefined) return found;
  const number = String(known.size + 1);
  const prefix = /^0x/i.test(trimmed) ? trimmed.slice(0, 2) : "";
  const masked = prefix + number.padStart(Math.max(trimmed.length - prefix.length, number.length), "0");
  known.set(trimmed, masked);
  return masked;
}

function isZero(text: string): boolean {
  return !/[1-9a-f]/i.test(text);
}

/** "32.39.3804" has three parts and is not found; "1.2.3.4" of a firmware could be an address: numbers above 255 tell. */
function looksLikeVersion(text: string): boolean {
  return text.split(".").some((part) => Number(part) > 255);
}

function hex(n: number, digits: number): string {
  return n.toString(16).padStart(digits, "0");
}
