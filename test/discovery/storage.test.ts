import { expect, test } from "bun:test";
import { discoverStorage } from "../../src/discovery/storage.ts";
import { temporaryFolder } from "../support/folders.ts";
import { treeRunner } from "../support/tree-runner.ts";

const MIB = 1024 * 1024;

test("two folders on one disk are both listed, one that is not there and one that is a file are not", async () => {
  using folder = temporaryFolder();
  const disk = { total_bytes: 100 * MIB + 5, free_bytes: 40 * MIB };
  const runner = treeRunner(
    folder.path,
    { "models/a/config.json": "", "models/b/config.json": "", file: "" },
    { disks: { "/models/a": disk, "/models/b": disk, "/file": disk } },
  );
  expect(await discoverStorage(runner, ["/models/b", "/models/a", "/gone", "/file", "/models/a"])).toEqual({
    storage: [
      { path: "/models/b", total_mb: 100, free_mb: 40 },
      { path: "/models/a", total_mb: 100, free_mb: 40 },
    ],
    warnings: [],
  });
});

test("a folder whose disk does not say its size is listed without one", async () => {
  using folder = temporaryFolder();
  expect(await discoverStorage(treeRunner(folder.path, { "models/x": "" }), ["/models"])).toEqual({
    storage: [{ path: "/models" }],
    warnings: [],
  });
});

test("a folder that may not be looked at costs a warning and not the others", async () => {
  using folder = temporaryFolder();
  const runner = treeRunner(
    folder.path,
    { "closed/x": "", "open/x": "" },
    { fails: { "/closed": "denied" }, disks: { "/open": { total_bytes: MIB, free_bytes: Number.NaN } } },
  );
  expect(await discoverStorage(runner, ["/closed", "/open"])).toEqual({
    storage: [{ path: "/open", total_mb: 1 }],
    warnings: ["the disk behind a model folder could not be looked at: /closed: denied"],
  });
});
