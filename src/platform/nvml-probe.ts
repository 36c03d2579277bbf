/**
 * Asks NVML from the safe side: a child of the same program loads the library, answers in JSON, and is given up at a time limit. The
 * library's calls cannot be interrupted, so a hung driver costs that child and nothing else; while it cannot be ended, no other starts.
 */
import * as v from "valibot";
import { messageOf } from "../lib/user-error.ts";
import { NVML_CODES } from "./nvml-layout.ts";
import { nvmlCandidates } from "./nvml-places.ts";
import { NvmlReply, type NvmlSnapshot } from "./nvml-snapshot.ts";
import { type NvmlOptions, type Runner, RunnerError } from "./runner.ts";

/** Eight cards whose driver is not kept loaded can take a second each for the first client. */
export const NVML_TIMEOUT_MS = 10_000;
/** 16 cards with 7 instances and 300 processes each are 5 MiB. */
const MAX_BYTES = 32 * 1024 * 1024;

/** One shot. `probe`: how the child is started. Without a library anywhere nothing is started. */
export async function probeNvml(
  exec: Runner["exec"],
  probe: readonly string[],
  options: NvmlOptions = {},
): Promise<NvmlSnapshot | undefined> {
  if (nvmlCandidates(options.library).length === 0) return undefined;
  const result = await exec([...probe, ...libraryFlag(options.library)], {
    timeoutMs: options.timeoutMs ?? NVML_TIMEOUT_MS,
    maxBytes: MAX_BYTES,
    lock: "driver",
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  }).catch((error: unknown) => {
    throw error instanceof RunnerError ? inWords(error, options) : error;
  });
  if (result === undefined) throw new RunnerError("io", `${probe[0]} could not be started`);
  if (result.exitCode !== 0) {
    const last = result.stderr.trim().split("\n").at(-1) ?? "";
    throw new RunnerError("io", `the NVML probe ended with ${result.exitCode}${last === "" ? "" : `: ${last.slice(0, 200)}`}`);
  }
  return snapshotOf(result.stdout);
}

export function libraryFlag(library: string | undefined): readonly string[] {
  return library === undefined ? [] : ["--library", library];
}

/** The same failure, named for what was asked rather than for the command that asked. */
function inWords(error: RunnerError, options: NvmlOptions): RunnerError {
  if (error.kind !== "timeout") return error;
  const left = error.pid === undefined ? "" : ` and could not be ended (pid ${error.pid})`;
  const limit = (options.timeoutMs ?? NVML_TIMEOUT_MS) / 1000;
  return new RunnerError("timeout", `NVML did not answer within ${limit} s${left}`, { pid: error.pid, cause: error });
}

/** The snapshot in a probe's answer; `undefined` when it found no library. Throws `RunnerError` with the library's reason. */
export function snapshotOf(line: string): NvmlSnapshot | undefined {
  const reply = parseReply(line);
  switch (reply.kind) {
    case "snapshot":
      return reply.snapshot;
    case "absent":
      return undefined;
    case "failed":
      throw new RunnerError(reply.code === NVML_CODES.noPermission ? "denied" : "io", reply.text);
    default:
      return reply satisfies never;
  }
}

function parseReply(line: string): NvmlReply {
  try {
    return v.parse(NvmlReply, JSON.parse(line));
  } catch (error) {
    throw new RunnerError("io", `the NVML probe's answer cannot be read: ${messageOf(error)}`, { cause: error });
  }
}
