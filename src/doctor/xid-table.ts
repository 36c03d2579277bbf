/** What Xid numbers mean for placement. Data, as of 2026-11: the numbers are NVIDIA's, the grouping by consequence is this project's. */
import type { Severity } from "../domain/finding.ts";

export interface XidMeaning {
  readonly meaning: string;
  readonly severity: Severity;
}

/** advise: a program's own fault. degrade: contained, or a warning. block: the card or its firmware needs a reset or worse. */
export const XIDS: Readonly<Record<number, XidMeaning>> = {
  13: { meaning: "fault of a program in the graphics engine", severity: "advise" },
  31: { meaning: "memory access fault of a program", severity: "advise" },
  43: { meaning: "a program's channel was stopped", severity: "advise" },
  45: { meaning: "a program's channel was taken down", severity: "advise" },
  48: { meaning: "uncorrectable memory error", severity: "block" },
  63: { meaning: "memory row is set to be remapped", severity: "degrade" },
  64: { meaning: "memory row could not be remapped", severity: "block" },
  68: { meaning: "fault of a program in the video engine", severity: "advise" },
  74: { meaning: "NVLink error", severity: "block" },
  79: { meaning: "fallen off the bus", severity: "block" },
  92: { meaning: "many corrected memory errors", severity: "degrade" },
  94: { meaning: "contained memory error", severity: "degrade" },
  95: { meaning: "uncontained memory error", severity: "block" },
  109: { meaning: "context switch timeout", severity: "block" },
  119: { meaning: "the card's firmware does not answer", severity: "block" },
  120: { meaning: "fault in the card's firmware", severity: "block" },
  140: { meaning: "unrecovered memory error", severity: "block" },
  143: { meaning: "the card's firmware could not start", severity: "block" },
};

/** An unknown number is judged by whether its line asks for a reset. `given`: what the configuration says instead. */
export function xidMeaning(xid: number, line: string, given: Readonly<Record<string, Severity | "ignore">> = {}): XidMeaning {
  const usual = usualMeaning(xid, line);
  const severity = given[xid];
  return severity === undefined || severity === "ignore" ? usual : { ...usual, severity };
}

function usualMeaning(xid: number, line: string): XidMeaning {
  return XIDS[xid] ?? { meaning: "not in our table", severity: /reset|reboot/i.test(line) ? "block" : "advise" };
}
