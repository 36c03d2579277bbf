/** The binding's numbers against the facts that a compiler printed from nvml.h, where those are at hand. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import {
  CLOCK_EVENT_BITS,
  codeWord,
  NVML_CODES,
  NVML_FIELDS,
  NVML_STRUCTS,
  NVML_SYMBOLS,
  NVML_VERSIONS,
  processStride,
  wordOf,
} from "../../src/platform/nvml-layout.ts";

const FACTS = ["../../../shared/reference/nvml-layout.json", "../../../../shared/reference/nvml-layout.json"]
  .map((path) => join(import.meta.dir, path))
  .find((path) => existsSync(path));

const Layout = v.object({
  structs: v.record(v.string(), v.object({ size: v.number(), fields: v.array(v.object({ name: v.string(), offset: v.number() })) })),
  functions: v.record(v.string(), v.object({ args: v.array(v.string()), returns: v.string() })),
  errors: v.record(v.string(), v.string()),
  versions: v.record(v.string(), v.number()),
  constants: v.object({ fieldIds: v.record(v.string(), v.number()), clocksEventReasons: v.record(v.string(), v.number()) }),
});

function facts(): v.InferOutput<typeof Layout> {
  if (FACTS === undefined) throw new Error("no facts");
  return v.parse(Layout, JSON.parse(readFileSync(FACTS, "utf8")));
}

test.skipIf(FACTS === undefined)("every symbol has the arguments of nvml.h", () => {
  const { functions } = facts();
  for (const [name, args] of Object.entries(NVML_SYMBOLS)) {
    expect([name, functions[name]?.args]).toEqual([name, [...args]]);
    expect(functions[name]?.returns).toBe("i32");
  }
});

test.skipIf(FACTS === undefined)("every struct has the size and the offsets of nvml.h", () => {
  const { structs } = facts();
  for (const [name, { size, ...offsets }] of Object.entries(NVML_STRUCTS)) {
    const known = structs[name];
    expect([name, known?.size]).toEqual([name, size]);
    const fields = Object.fromEntries((known?.fields ?? []).map((field) => [field.name, field.offset]));
    expect(fields).toMatchObject(offsets);
  }
});

test.skipIf(FACTS === undefined)("struct versions, field ids, codes and clock bits are those of nvml.h", () => {
  const { versions, errors, constants } = facts();
  expect(versions).toMatchObject(NVML_VERSIONS);
  expect(constants.fieldIds).toMatchObject(NVML_FIELDS);
  const unnamed = Object.keys(errors).filter((code) => Number(code) > 0 && codeWord(Number(code)).startsWith("unknown("));
  // Those that no call of ours can give.
  expect(unnamed).toEqual(["5", "22", "24", "30"]);
  expect(errors).toMatchObject({
    [NVML_CODES.gpuIsLost]: "NVML_ERROR_GPU_IS_LOST",
    [NVML_CODES.functionNotFound]: "NVML_ERROR_FUNCTION_NOT_FOUND",
    [NVML_CODES.resetRequired]: "NVML_ERROR_RESET_REQUIRED",
    [NVML_CODES.insufficientSize]: "NVML_ERROR_INSUFFICIENT_SIZE",
  });
  expect(constants.clocksEventReasons.nvmlClocksEventReasonAll).toBe(2 ** CLOCK_EVENT_BITS.length - 1);
});

test("a version field is the struct's size with its version in the top byte", () => {
  for (const [name, value] of Object.entries(NVML_VERSIONS)) {
    const found = Object.entries(NVML_STRUCTS).find(([struct]) => struct === `${name}_t`);
    expect([name, value & 0xff_ffff]).toEqual([name, found?.[1].size ?? -1]);
    expect(name.endsWith(`_v${value >>> 24}`)).toBe(true);
  }
});

test.each([
  ["nvmlDeviceGetComputeRunningProcesses_v3", "535.54.03", 32],
  ["nvmlDeviceGetComputeRunningProcesses_v3", "535.43.02", 32],
  ["nvmlDeviceGetComputeRunningProcesses_v3", "535.98", 24],
  ["nvmlDeviceGetComputeRunningProcesses_v3", "535.104.05", 24],
  ["nvmlDeviceGetComputeRunningProcesses_v3", "580.65.06", 24],
  ["nvmlDeviceGetComputeRunningProcesses_v3", undefined, 24],
  ["nvmlDeviceGetComputeRunningProcesses_v2", "535.54.03", 24],
  ["nvmlDeviceGetComputeRunningProcesses", "535.54.03", 16],
] as const)("%s of driver %s writes entries of %d bytes", (symbol, driver, stride) => {
  expect(processStride(symbol, driver)).toBe(stride);
});

test("a number that is not known stays one, in codes and in enum values", () => {
  expect(codeWord(77)).toBe("unknown(77)");
  expect(wordOf({ 0: "none" }, 9)).toBe(9);
});
