import { expect, test } from "bun:test";
import { explainFailure, type FailureKind } from "../../../src/discovery/nvidia-smi/failure.ts";
import { listText, queryText } from "../../support/smi-texts.ts";

const NO_DRIVER =
  "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.";

test("each sentence on stdout is explained, whatever the exit code is", () => {
  const sentences: readonly (readonly [string, FailureKind])[] = [
    [NO_DRIVER, "no-driver"],
    ["Failed to initialize NVML: Driver/library version mismatch", "library-mismatch"],
    ["No devices were found", "no-devices"],
    ["Failed to initialize NVML: Insufficient Permissions", "no-permission"],
    ["Failed to initialize NVML: Unknown Error", "nvml-error"],
    ["Unable to determine the device handle for GPU0000:17:00.0: Unknown Error", "card-lost"],
    ["Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.", "usage"],
  ];
  for (const [text, kind] of sentences) {
    for (const code of [0, 1, 9, 255]) {
      expect(explainFailure(code, `\n${text}\n\n`, "")).toEqual({ kind, text, usable: false, ...handle(text) });
    }
  }
});

function handle(text: string): { readonly busId: string | undefined; readonly index: undefined } {
  return { busId: /GPU(0000:17:00\.0)/.exec(text)?.[1], index: undefined };
}

test("the library's version goes with the mismatch", () => {
  const text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n";
  expect(explainFailure(18, text, "")?.text).toBe(
    "Failed to initialize NVML: Driver/library version mismatch NVML library version: 535.161",
  );
});

test("a lost card is named by index and bus id", () => {
  const text = "Unable to determine the device handle for GPU1: 0000:34:00.0: GPU is lost.  Reboot the system to recover this GPU";
  expect(explainFailure(15, text, "")).toEqual({ kind: "card-lost", text, usable: false, busId: "0000:34:00.0", index: 1 });
});

test("a code without words is put in words", () => {
  const found = [4, 6, 9, 12, 13, 15, 18].map((code) => explainFailure(code, "", ""));
  expect(found.map((failure) => failure?.kind)).toEqual([
    "no-permission",
    "no-devices",
    "no-driver",
    "nvml-error",
    "nvml-error",
    "card-lost",
    "library-mismatch",
  ]);
  expect(found[3]?.text).toBe("libnvidia-ml was not found");
  expect(explainFailure(77, "", "")).toMatchObject({ kind: "other", text: "exit code 77" });
});

test("good output with the infoROM's code can be used, and without output it cannot", () => {
  const warning = "WARNING: infoROM is corrupted at gpu 0000:17:00.0";
  expect(explainFailure(14, `${queryText([{ n: 0 }])}${warning}\n`, "")).toMatchObject({ kind: "inforom", usable: true, text: warning });
  expect(explainFailure(14, "", "")).toMatchObject({ kind: "inforom", usable: false, text: "the infoROM of a card is corrupted" });
});

test("a good code with good output is no failure, also where a sentence about one card stands beside it", () => {
  const sentence = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n";
  for (const text of [queryText([{ n: 0 }]), listText([{ n: 0 }]), sentence + listText([{ n: 0 }])]) {
    expect(explainFailure(0, text, "")).toBeUndefined();
  }
  expect(explainFailure(0, "", "")).toBeUndefined();
});

test("a process that is named like an error sentence does not make the output one", () => {
  const processes = "<process_info><pid>7</pid><process_name>echo No devices were found</process_name></process_info>";
  expect(explainFailure(0, queryText([{ n: 0, processes }]), "")).toBeUndefined();
  const inforom = explainFailure(14, `${queryText([{ n: 0, processes }])}WARNING: infoROM is corrupted at gpu 0000:10:00.0\n`, "");
  expect(inforom).toMatchObject({ kind: "inforom", usable: true });
});

test("words on stderr count where stdout has none", () => {
  expect(explainFailure(127, "", "nvidia-smi: cannot execute: required file not found\n")).toMatchObject({
    kind: "other",
    text: "nvidia-smi: cannot execute: required file not found",
  });
});

test("a warning about the infoROM after good output counts although the code is good", () => {
  const warning = "WARNING: infoROM is corrupted at gpu 0000:17:00.0";
  for (const text of [queryText([{ n: 0 }]), listText([{ n: 0 }])]) {
    for (const code of [0, 14]) {
      expect(explainFailure(code, `${text}${warning}\n`, "")).toEqual({
        kind: "inforom",
        usable: true,
        text: warning,
        busId: "0000:17:00.0",
        index: undefined,
      });
    }
  }
  const processes = `<process_info><pid>7</pid><process_name>\n${warning}\n</process_name></process_info>`;
  expect(explainFailure(0, queryText([{ n: 0, processes }]), "")).toBeUndefined();
});

test("a long sentence is one line of 300 characters at most, without commands to a terminal", () => {
  const failure = explainFailure(255, `Failed to initialize NVML: \u001b[2J${"x".repeat(1000)}`, "");
  expect([failure?.kind, failure?.text.length, failure?.text.includes("\u001b")]).toEqual(["nvml-error", 300, false]);
  expect(explainFailure(9, `${NO_DRIVER} ${"y".repeat(80)}`, "")?.text).toBe(`${NO_DRIVER} ${"y".repeat(80)}`);
});

test("the library that is missing and rights that are missing are told from other failures without a code", () => {
  expect(explainFailure(1, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "")?.kind).toBe("nvml-error");
  expect(explainFailure(1, "NVIDIA-SMI has failed because you do not have sufficient permissions.", "")?.kind).toBe("no-permission");
});
