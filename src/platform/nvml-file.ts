/** Reads `nvml.json` of a recorded machine. */
import { readFileSync } from "node:fs";
import { checkValue, renderMisfit } from "../lib/schema-error.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { NvmlSnapshot } from "./nvml-snapshot.ts";

/** The snapshot in a file. Throws `UserError` for one that does not fit. */
export function readNvmlFile(file: string): NvmlSnapshot {
  const misfit = (why: string): UserError =>
    new UserError({ what: `${file} does not fit`, why, fix: "record the machine again with: llmgw inventory --record DIR" });
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw misfit(messageOf(error));
  }
  const checked = checkValue(NvmlSnapshot, value);
  if (checked.kind === "ok") return checked.value;
  throw misfit(checked.misfits.map((found) => renderMisfit(found, "nvml.json")).join("; "));
}
