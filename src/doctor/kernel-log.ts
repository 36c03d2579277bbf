/** Reads the driver's lines of a kernel log. Pure. */
import { parseBusId } from "../domain/bus-id.ts";
import { printable } from "../lib/printable.ts";
import { type Facts, known } from "./facts.ts";

export interface XidEvent {
  readonly busId: string;
  readonly xid: number;
  /** As the log prints it; `undefined` in a form without one. */
  readonly time: string | undefined;
  readonly line: string;
}

/** `NVRM: Xid (PCI:0000:4e:00): 79, pid=…, GPU has fallen off the bus.` Seen with drivers 418 to 580; the function may be printed too. */
const XID = /NVRM: Xid \(PCI:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.\d)?\): (\d{1,4})\b/i;
const TIME = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\S*|\[\s*\d+\.\d+\])/;

export function xidEvents(lines: readonly string[]): readonly XidEvent[] {
  return lines.flatMap((line) => {
    const found = XID.exec(line);
    const busId = found === null ? undefined : parseBusId(`${found[1]}.0`);
    if (found === null || busId === undefined) return [];
    return [{ busId, xid: Number(found[2]), time: TIME.exec(line)?.[1], line: message(line) }];
  });
}

/** The line without its time and host name. */
export function message(line: string): string {
  const from = line.search(/NVRM|nvidia|nouveau|Loading of|module/i);
  return printable(from > 0 ? line.slice(from) : line).slice(0, 240);
}

/** Bus ids of the cards that the kernel saw leave. */
export function fallenCards(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => {
    if (!/fallen off the bus/i.test(line)) return [];
    const found = /(?:PCI:|GPU |at )?\b([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?)\b/i.exec(line)?.[1];
    const busId = found === undefined ? undefined : parseBusId(found.includes(".") ? found : `${found}.0`);
    return busId === undefined ? [] : [busId];
  });
}

/** The last line of the driver's, for a finding about it. */
export function lastDriverLine(facts: Facts): string | undefined {
  const line = (known(facts.kernelLog)?.lines ?? []).findLast((one) => /NVRM/.test(one) && !/NVRM: loading/i.test(one));
  return line === undefined ? undefined : message(line);
}
