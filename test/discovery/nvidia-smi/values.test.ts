import { expect, test } from "bun:test";
import {
  errorText,
  isLost,
  parseCelsius,
  parseCount,
  parseFlag,
  parseInstanceId,
  parseLanes,
  parseMib,
  parsePercent,
  parseSwitch,
  parseVersion,
  parseWatts,
  parseWord,
} from "../../../src/discovery/nvidia-smi/values.ts";

const NOTHING = [
  undefined,
  "",
  "  ",
  "N/A",
  "[N/A]",
  "n/a",
  "[Not Supported]",
  "Not Supported",
  "Not Found",
  "None",
  "Requested functionality has been deprecated",
  "[Requested functionality has been deprecated]",
  "Insufficient Permissions",
  "[Insufficient Permissions]",
  "Unknown Error",
  "[Unknown Error]",
  "GPU is lost",
  "[GPU requires reset]",
  "System is not in ready state",
  "ERR!",
];

test("every spelling of no value is undefined for every kind of value", () => {
  const parsers = [parseWord, parseMib, parseWatts, parseCelsius, parsePercent, parseCount, parseInstanceId, parseLanes];
  for (const text of NOTHING) {
    for (const parse of [...parsers, parseFlag, parseSwitch, parseVersion]) expect([text, parse(text)]).toEqual([text, undefined]);
  }
});

test("memory is MiB with or without a blank, also under the ancient unit, and nothing under another unit", () => {
  expect(["40960 MiB", "40960MiB", " 128 MB ", "0 MiB"].map(parseMib)).toEqual([40960, 40960, 128, 0]);
  expect(["40960", "40 GiB", "-1 MiB", "1.5 MiB", "1e3 MiB", "0x10 MiB", "1 MiB 2"].map(parseMib)).toEqual(Array(7).fill(undefined));
});

test("a number that a double cannot hold is no value", () => {
  expect(parseCount("9007199254740991")).toBe(9007199254740991);
  expect(parseCount("18446744073709551615")).toBeUndefined();
  expect(parseMib(`${"9".repeat(400)} MiB`)).toBeUndefined();
});

test("power, temperature, utilisation and lanes are read with their units only", () => {
  expect(["25.58 W", "700 W", "25,58 W", "25.58", "W"].map(parseWatts)).toEqual([25.58, 700, undefined, undefined, undefined]);
  expect(["41 C", "-5 C", "41", "41 F"].map(parseCelsius)).toEqual([41, -5, undefined, undefined]);
  expect(["0 %", "100 %", "101 %", "7"].map(parsePercent)).toEqual([0, 100, undefined, undefined]);
  expect(["16x", "16", "x"].map(parseLanes)).toEqual([16, undefined, undefined]);
});

test("the driver's word for not MIG is no instance id", () => {
  expect(["0", "10", "4294967295", "-1"].map(parseInstanceId)).toEqual([0, 10, undefined, undefined]);
});

test("flags and switches know their words and no others", () => {
  expect(["Yes", "Active", "True", "No", "Not Active", "False", "maybe"].map(parseFlag)).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
    undefined,
  ]);
  expect(["Enabled", "Disabled", "On"].map(parseSwitch)).toEqual(["enabled", "disabled", undefined]);
});

test("a version is its number, also before a note that it is deprecated", () => {
  expect(parseVersion("580.65.06")).toBe("580.65.06");
  expect(parseVersion("610.57.04 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]")).toBe("610.57.04");
  expect(["13", "13.0-beta", "v13.0", "Deprecated, see KMD"].map(parseVersion)).toEqual(Array(4).fill(undefined));
});

test("an error in place of a value is told from a value that does not exist", () => {
  expect(["System is not in ready state", "[GPU is lost.]", "an Unknown Error"].map(errorText)).toEqual([
    "System is not in ready state",
    "GPU is lost",
    undefined,
  ]);
  expect(["Unknown Error", "[Unknown Error]", "GPU requires reset", "ERR!", "N/A", "Insufficient Permissions"].map(errorText)).toEqual([
    "Unknown Error",
    "Unknown Error",
    "GPU requires reset",
    "ERR!",
    undefined,
    undefined,
  ]);
  expect(["GPU is lost", "[GPU is lost]", "GPU is lost.", "the GPU is lost in thought"].map(isLost)).toEqual([true, true, true, false]);
});
