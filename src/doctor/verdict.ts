/** Short forms for what checks say. Pure. */
import type { Evidence, Fix, Need, Subject } from "../domain/finding.ts";
import { compact } from "../lib/compact.ts";
import type { Verdict } from "./check.ts";
import type { Facts } from "./facts.ts";

/** What every check on cards needs first. */
export const DRIVER = ["driver-nouveau", "driver-secure-boot", "driver-loaded", "driver-library-mismatch", "driver-query-hung"] as const;

/** What every check on what a card says needs: a driver that answers, and a card that is there. */
export const ANSWERING = [...DRIVER, "gpu-off-bus", "gpu-missing"];

export function ok(message: string, subject?: Subject): Verdict {
  return { result: "ok", message, ...compact({ subject }) };
}

export function skipped(message: string, subject?: Subject): Verdict {
  return { result: "skipped", message, ...compact({ subject }) };
}

export function unknown(message: string, subject?: Subject): Verdict {
  return { result: "unknown", message, ...compact({ subject }) };
}

export function evidence(source: string, value: unknown, want?: string): Evidence {
  return compact({ source, value: String(value), want });
}

export function fix(text: string, command?: string, needs: readonly Need[] = [], safe = false): Fix {
  return compact({ text, command, needs: [...needs], safe });
}

/** The command that takes this node out of placement. */
export function drain(facts: Facts): string {
  return `llmgw ctl drain ${facts.inventory.hostname ?? "NODE"}`;
}

export function drainAndReset(facts: Facts, card: string): Fix {
  return fix("drain the node, then reset the card", `${drain(facts)} && nvidia-smi --gpu-reset -i ${card}`, ["root", "card-idle", "reset"]);
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}
