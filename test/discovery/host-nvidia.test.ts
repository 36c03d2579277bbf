/** Discovery through the real host runner, with a program named nvidia-smi of our own on the PATH. */
import { expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { discover } from "../../src/discovery/discover.ts";
import type { Inventory } from "../../src/domain/inventory.ts";
import { createHostRunner } from "../../src/platform/host-runner.ts";
import { processState } from "../../src/platform/processes.ts";
import { temporaryFolder } from "../support/folders.ts";

const MACHINE = join(import.meta.dir, "../../fakes/machines/l40s-pcie-4");

/** The fake's answers, with a shell line put before each of them. */
function install(folder: string, lines: Partial<Record<"-L" | "-q" | "topo", string>>): void {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  const answer = (name: "-L" | "-q" | "topo", file: string): string => `${name}) ${lines[name] ?? ":"}; exec cat ${join(MACHINE, file)} ;;`;
  const script = ["#!/bin/sh", 'case "$1" in', answer("-L", "L.txt"), answer("-q", "q-x.xml"), answer("topo", "topo-m.txt"), "esac", ""];
  writeFileSync(join(bin, "nvidia-smi"), script.join("\n"));
  chmodSync(join(bin, "nvidia-smi"), 0o755);
}

function look(folder: string, timeoutMs = 5_000): Promise<Inventory> {
  const env = { PATH: `${join(folder, "bin")}:/usr/bin:/bin`, HOME: folder };
  const runner = createHostRunner({ env, roundLock: { folders: [join(folder, "run")] } });
  return discover(runner, { modelDirs: [], gpus: "only", nvidiaTimeoutMs: timeoutMs });
}

test("the three calls run side by side: each waits for the other two", async () => {
  using folder = temporaryFolder();
  const all = ["L", "q", "t"].map((name) => join(folder.path, name));
  const meet = (own: string): string => `touch ${own}; until ${all.map((path) => `[ -e ${path} ]`).join(" && ")}; do sleep 0.01; done`;
  install(folder.path, { "-L": meet(all[0] ?? ""), "-q": meet(all[1] ?? ""), topo: meet(all[2] ?? "") });
  const inventory = await look(folder.path);
  expect(inventory.warnings).toEqual([]);
  expect(inventory.gpus.map((gpu) => [gpu.label, gpu.class, gpu.health.ok])).toEqual(
    ["0", "1", "2", "3"].map((label) => [label, "l40s-48g", true]),
  );
});

test("a query that hangs with a child holding its pipe: the cards of -L are listed, not healthy, and nothing is left running", async () => {
  using folder = temporaryFolder();
  const pids = join(folder.path, "pids");
  install(folder.path, { "-q": `trap '' TERM; sh -c "trap '' TERM; echo \\$\\$ >> ${pids}; exec sleep 600" & echo $$ >> ${pids}; wait` });
  const inventory = await look(folder.path, 400);
  expect(inventory.source).toBe("nvidia-smi");
  expect(inventory.gpus.map((gpu) => gpu.health.ok)).toEqual([false, false, false, false]);
  expect(inventory.gpus[0]?.health.problems[0]).toContain("did not answer within 0.4 s");
  expect(inventory.warnings.join()).toContain("nvidia-smi -q -x did not answer");
  const left = readFileSync(pids, "utf8").trim().split("\n").map(Number);
  expect(left.length).toBe(2);
  expect(left.map(processState)).toEqual([undefined, undefined]);
  expect(existsSync(join(folder.path, "run/driver-round.json"))).toBe(false);
});

test("topo that fails costs the topology only", async () => {
  using folder = temporaryFolder();
  install(folder.path, { topo: "echo broken; exit 255" });
  const inventory = await look(folder.path);
  expect(inventory.gpus.map((gpu) => gpu.health.ok)).toEqual([true, true, true, true]);
  expect(inventory.gpus.every((gpu) => gpu.nvlink_peers === undefined)).toBe(true);
  expect(inventory.warnings).toEqual(["nvidia-smi topo -m: broken"]);
});

test("a program that prints without end is cut at the cap and does not hold the report", async () => {
  using folder = temporaryFolder();
  install(folder.path, { topo: "exec yes GPU0" });
  const inventory = await look(folder.path, 1_000);
  expect(inventory.gpus.length).toBe(4);
  expect(inventory.warnings.join()).toContain("topo -m did not answer");
});
