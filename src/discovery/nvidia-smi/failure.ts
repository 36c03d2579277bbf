/**
 * What a failing nvidia-smi says. Errors come on stdout, with an exit code that is not always there. Exit codes: nvidia-smi(1), section
 * RETURN VALUE; sentences: drivers 384 to 610.
 */
import { printable } from "../../lib/printable.ts";
import { parseHandle } from "./list.ts";

export type FailureKind =
  | "no-driver"
  | "library-mismatch"
  | "no-devices"
  | "nvml-error"
  | "no-permission"
  | "card-lost"
  | "usage"
  | "inforom"
  | "other";

export interface Failure {
  readonly kind: FailureKind;
  /** The tool's own words on one line; ours for a code that came without words. */
  readonly text: string;
  /** The rest of the output counts all the same. */
  readonly usable: boolean;
  readonly busId?: string | undefined;
  readonly index?: number | undefined;
}

interface Sentence {
  readonly kind: FailureKind;
  readonly pattern: RegExp;
}

const SENTENCES: readonly Sentence[] = [
  { kind: "no-driver", pattern: /couldn't communicate with the NVIDIA driver|driver is not loaded|Driver Not Loaded/i },
  { kind: "library-mismatch", pattern: /Driver\/library version mismatch/i },
  { kind: "no-devices", pattern: /No devices were found/i },
  { kind: "no-permission", pattern: /Failed to initialize NVML: Insufficient Permissions/i },
  { kind: "no-permission", pattern: /do(?:es)? not have suff?ic?ient permissions/i },
  { kind: "nvml-error", pattern: /Failed to initialize NVML|couldn't find (?:the )?(?:libnvidia-ml|nvml\.dll)/i },
  { kind: "card-lost", pattern: /Unable to determine the device handle/i },
  {
    kind: "usage",
    pattern: /Invalid combination of input arguments|command line argument must be used|is not a valid|Option .* is not recognized/i,
  },
];

const BY_CODE: Readonly<Record<number, Sentence["kind"] | undefined>> = {
  2: "usage",
  4: "no-permission",
  6: "no-devices",
  9: "no-driver",
  12: "nvml-error",
  13: "nvml-error",
  14: "inforom",
  15: "card-lost",
  18: "library-mismatch",
};

const CODE_MEANS: Readonly<Record<number, string>> = {
  2: "an argument is not known",
  3: "not available on this card",
  4: "no permission",
  6: "not found",
  8: "a power cable is not attached",
  9: "the NVIDIA driver is not loaded",
  10: "the kernel found an interrupt problem with a card",
  12: "libnvidia-ml was not found",
  13: "libnvidia-ml is too old for this",
  14: "the infoROM of a card is corrupted",
  15: "a card has fallen off the bus or does not answer",
  18: "driver and library have different versions",
};

/** After normal output, with code 14 or, for `-q -x`, with code 0 (microsoft/pai 3756). */
const INFOROM = /^WARNING: infoROM is corrupted/i;

/**
 * `undefined` when it did not fail. With exit code 0 an error sentence counts only where it is the whole output, and the warning about the
 * infoROM also beside output: a good code can hide a fault.
 */
export function explainFailure(exitCode: number, stdout: string, stderr: string): Failure | undefined {
  if (exitCode === 0 && hasContent(stdout)) return inforomWarning(stdout);
  const lines = `${withoutDocuments(stdout)}\n${stderr}`.split(/\r?\n/).map((line) => line.trim());
  const handle = lines.map(parseHandle).find((found) => found !== undefined);
  const sentence = SENTENCES.map(({ kind, pattern }) => ({ kind, at: lines.findIndex((line) => pattern.test(line)) })).find(
    ({ at }) => at >= 0,
  );
  if (exitCode === 0 && sentence === undefined) return undefined;
  const kind = sentence?.kind ?? BY_CODE[exitCode] ?? "other";
  const next = sentence === undefined ? undefined : lines[sentence.at + 1];
  const words =
    sentence === undefined
      ? firstWords(lines, hasContent(stdout))
      : [lines[sentence.at] ?? "", /^NVML library version/i.test(next ?? "") ? next : undefined].filter(Boolean).join(" ");
  const code = CODE_MEANS[exitCode] ?? `exit code ${exitCode}`;
  return {
    kind,
    text: oneLine(words === "" ? code : words),
    usable: kind === "inforom" && hasContent(stdout),
    busId: handle?.busId ?? inforomBus(words),
    index: handle?.index,
  };
}

function inforomWarning(stdout: string): Failure | undefined {
  if (!/infoROM is corrupted/i.test(stdout)) return undefined;
  const lines = withoutDocuments(stdout).split(/\r?\n/);
  const warning = lines.map((line) => line.trim()).find((line) => INFOROM.test(line));
  if (warning === undefined) return undefined;
  return { kind: "inforom", text: oneLine(warning), usable: true, busId: inforomBus(warning), index: undefined };
}

function inforomBus(text: string): string | undefined {
  return /^WARNING: infoROM is corrupted at gpu ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])/i.exec(text)?.[1];
}

/** The sentence about a missing driver alone has 190 characters. */
const MAX_TEXT = 300;

function oneLine(words: string): string {
  const shown = words.length > MAX_TEXT ? `${words.slice(0, MAX_TEXT - 1)}…` : words;
  return shown.replace(/.{1,100}/gsu, (piece) => printable(piece)).slice(0, MAX_TEXT);
}

/** Whether there is output beside the error sentence: an XML document, a list of cards, a matrix. */
function hasContent(stdout: string): boolean {
  return /<nvidia_smi_log|^GPU \d+: |^\s*(?:\[?\S*\[4m)?GPU0/m.test(stdout);
}

/** Whole documents out: a process in one may be called like an error sentence. */
function withoutDocuments(stdout: string): string {
  const open = stdout.indexOf("<?xml");
  const end = "</nvidia_smi_log>";
  const close = stdout.lastIndexOf(end);
  return open < 0 || close < open ? stdout : `${stdout.slice(0, open)}\n${stdout.slice(close + end.length)}`;
}

/** The first line that is a sentence. Beside output only a warning is one: the rest are cards, rows of a matrix, parts of a document. */
function firstWords(lines: readonly string[], besideOutput: boolean): string {
  const warning = lines.find((line) => /^(?:warning|error)\b/i.test(line));
  return warning ?? (besideOutput ? "" : (lines.find((line) => line !== "" && !line.startsWith("<")) ?? ""));
}
