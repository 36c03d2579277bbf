/**
 * PCI bus ids, which every tool writes in its own way: sysfs `0000:17:00.0`, nvidia-smi `00000000:17:00.0` in capitals, its error
 * sentences `GPU0000:17:00.0` glued together (recorded: fail-gpu-is-lost). Inside llmgw there is one form, that of sysfs.
 */

/** Domain (4 to 8 digits), bus, device (5 bits), function (3 bits). `GPU` is what some error sentences put in front. */
const BUS_ID = /^(?:GPU\s*)?([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])$/i;

/**
 * The bus id as sysfs names it: `0000:17:00.0`, lower case. A domain above `ffff` keeps its digits (`10000:01:00.0`, Intel VMD).
 * `undefined` when the text is no bus id.
 */
export function parseBusId(text: string): string | undefined {
  const found = BUS_ID.exec(text.trim());
  if (found === null) return undefined;
  const [, domain = "", bus = "", device = "", func = ""] = found;
  const digits = domain.replace(/^0+/, "").padStart(4, "0");
  return `${digits}:${bus}:${device}.${func}`.toLowerCase();
}

/** The bus id as nvidia-smi prints it and takes it after `-i`: `00000000:17:00.0`, upper case. A text that is no bus id stays as it is. */
export function smiBusId(busId: string): string {
  const parsed = parseBusId(busId);
  return parsed === undefined ? busId : parsed.toUpperCase().padStart("00000000:17:00.0".length, "0");
}
