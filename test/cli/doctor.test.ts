import { describe, expect, test } from "bun:test";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { ranges } from "../../src/cli/render-doctor.ts";
import { CHECKS } from "../../src/doctor/checks.ts";
import { DoctorReport } from "../../src/domain/finding.ts";
import { renderTar } from "../../src/lib/tar.ts";
import { createHostRunner } from "../../src/platform/host-runner.ts";
import { runLlmgw } from "../support/cli.ts";
import { temporaryFolder } from "../support/folders.ts";

const doctor = (...words: string[]) => runLlmgw(["doctor", ...words]);

describe("exit codes", () => {
  test.each([
    ["l40s-pcie-4", [], 0],
    ["cpu-only", ["--strict"], 0],
    ["h100-nvswitch-8", [], 0],
    ["h100-nvswitch-8", ["--fail-on", "advise"], 1],
    ["thermal-power-brake", [], 1],
    ["thermal-power-brake", ["--fail-on", "block"], 0],
    ["no-driver", ["--fail-on", "block"], 1],
    ["thermal-power-brake", ["--skip", "gpu-thermal,gpu-power-brake"], 0],
    ["a100-neglected", ["--only", "host-facts"], 0],
    ["a100-neglected", ["--only", "host-facts", "--strict"], 1],
    ["l40s-pcie-4", ["--monitor"], 0],
    ["thermal-power-brake", ["--monitor"], 1],
    ["no-driver", ["--monitor"], 2],
    ["a100-neglected", ["--only", "host-facts", "--monitor"], 3],
  ] as const)("%s %p: %p", async (machine, words, code) => {
    expect((await doctor("--machine", machine, ...words)).exitCode).toBe(code);
  });
});

test("--json is version 1, fits its schema, and holds the ok findings of every check", async () => {
  const { stdout, exitCode } = await doctor("--json", "--machine", "ecc-row-remap");
  const report = v.parse(DoctorReport, JSON.parse(stdout));
  expect(exitCode).toBe(1);
  expect(new Set(report.findings.map((finding) => finding.id))).toEqual(new Set(CHECKS.map((check) => check.id)));
  expect(report.findings.some((finding) => finding.result === "ok")).toBe(true);
});

test("--only judges what the check depends on and reports it alone", async () => {
  const { stdout } = await doctor("--only", "gpu-xid", "--only", "gpu-thermal", "--json", "--machine", "no-driver");
  const { findings } = v.parse(DoctorReport, JSON.parse(stdout));
  expect(findings.map(({ id, result, message }) => [id, result, message])).toEqual([
    ["gpu-xid", "skipped", "needs driver-loaded"],
    ["gpu-xid", "skipped", "needs driver-loaded"],
    ["gpu-thermal", "skipped", "needs driver-loaded"],
    ["gpu-thermal", "skipped", "needs driver-loaded"],
  ]);
});

test("--monitor is one line", async () => {
  const { stdout } = await doctor("--monitor", "--machine", "ecc-row-remap");
  expect(stdout).toBe(
    "LLMGW CRITICAL: gpu-recovery-action gpu 1; gpu-ecc-uncorrected gpu 0; gpu-row-remap-pending gpu 1; gpu-row-remap-failed gpu 2\n",
  );
});

test("--list names every check without looking at any machine, --explain says what one is about", async () => {
  const { stdout } = await doctor("--list");
  expect(CHECKS.filter((check) => !stdout.includes(`${check.id} `))).toEqual([]);
  const explained = await doctor("--explain", "gpu-xid");
  expect(explained).toMatchObject({ exitCode: 0, stderr: "" });
  expect(explained.stdout).toStartWith("gpu-xid (gpu, block): no Xid since boot");
});

test("a check that does not exist is suggested the near one, and the exit is 2", async () => {
  for (const flag of ["--explain", "--only", "--skip"]) {
    const { exitCode, stderr } = await doctor(flag, "gpu-xdi");
    expect([exitCode, stderr.includes('there is no check "gpu-xdi"'), stderr.includes("did you mean gpu-xid?")]).toEqual([2, true, true]);
  }
});

test("numbers of cards are folded into ranges", () => {
  expect(ranges([0, 1, 2, 3, 5, 7, 6])).toBe("0-3, 5-7");
  expect(ranges([4])).toBe("4");
});

test("--bundle lists what it writes, replaces identities, overwrites nothing", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "node.tar.gz");
  const { exitCode, stderr } = await doctor("--bundle", file, "--machine", "nvswitch-no-manager");
  expect([exitCode, existsSync(file)]).toEqual([0, true]);
  for (const name of ["findings.json", "doctor.txt", "version.txt", "machine/machine.yaml"]) expect(stderr).toContain(`path=node/${name}`);
  const unpacked = Buffer.from(Bun.gunzipSync(readFileSync(file))).toString("latin1");
  expect(unpacked).toContain("fabric manager is not running");
  expect(unpacked).not.toContain("hgx-25");
  expect(unpacked).not.toContain("c0de0019");
  expect((await doctor("--bundle", file, "--machine", "nvswitch-no-manager")).stderr).toContain("exists");
});

test("--bundle holds the last log of the agent's unit, identities replaced as everywhere", async () => {
  using folder = temporaryFolder();
  const tool = join(folder.path, "journalctl");
  const uuid = "GPU-8d3f2a1b-1111-4222-8333-944445555666";
  // The kernel log is asked for by the same program.
  writeFileSync(tool, `#!/bin/sh\ncase "$*" in *llmgw-agent*) echo "agent ready uuid=${uuid}";; esac\n`);
  chmodSync(tool, 0o755);
  const runner = createHostRunner({ env: { PATH: `${folder.path}:/bin:/usr/bin`, HOME: folder.path, LLMGW_RUNTIME_DIR: folder.path } });
  const file = join(folder.path, "node.tar.gz");
  expect((await runLlmgw(["doctor", "--bundle", file], { runner })).exitCode).toBe(0);
  const unpacked = Buffer.from(Bun.gunzipSync(readFileSync(file))).toString("latin1");
  expect(unpacked).toMatch(/agent ready uuid=GPU-/);
  expect(unpacked).not.toContain(uuid);
});

test("a tar archive holds long names, links and bytes as they were", async () => {
  const long = `${"folder/".repeat(30)}name`;
  const bytes = Uint8Array.from({ length: 1_000 }, (_, n) => n % 256);
  using folder = temporaryFolder();
  const archive = join(folder.path, "x.tar");
  await Bun.write(
    archive,
    renderTar(
      [
        { path: long, content: bytes },
        { path: "link", content: { link: `../${long}` } },
      ],
      1_000_000,
    ),
  );
  expect(Bun.spawnSync(["tar", "xf", archive, "-C", folder.path]).exitCode).toBe(0);
  expect(Uint8Array.from(readFileSync(join(folder.path, long)))).toEqual(bytes);
  expect(readlinkSync(join(folder.path, "link"))).toBe(`../${long}`);
});

test.each([
  ["under doctor", (waive: string) => `doctor: { waive: [${waive}] }\n`],
  ["at the top", (waive: string) => `waive: [${waive}]\n`],
])("a waiver in agent.yaml %s is shown with its reason and takes the exit code along; one that names no check is told", async (_, yaml) => {
  using folder = temporaryFolder();
  cpSync(join(import.meta.dir, "../../fakes/machines/nouveau-holds-card"), folder.path, { recursive: true, verbatimSymlinks: true });
  const waive = "{ id: driver-nouveau, subject: gpu *, reason: draws the screen }, { id: driver-nouvau, reason: typo }";
  mkdirSync(join(folder.path, "root/etc/llmgw"), { recursive: true });
  writeFileSync(join(folder.path, "root/etc/llmgw/agent.yaml"), yaml(waive));
  const { exitCode, stdout, stderr } = await doctor("--machine", folder.path);
  expect(exitCode).toBe(0);
  expect(stdout).toContain("waived  driver-nouveau: card 0000:18:00.0 is held by nouveau (waived: draws the screen)");
  expect(stderr).toContain("a waiver names no check id=driver-nouvau near=driver-nouveau");
});

test("--bundle says that its file exists before anything is looked at", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "there.tar.gz");
  writeFileSync(file, "mine");
  // No machine and no host is given: looking at one would be a bug of this test's own.
  expect(await doctor("--bundle", file)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(`${file} exists`) });
  expect(readFileSync(file, "utf8")).toBe("mine");
});

test("cards that take 8 s to wake up are not called hung", async () => {
  using folder = temporaryFolder();
  cpSync(join(import.meta.dir, "../../fakes/machines/h100-nvswitch-8"), folder.path, { recursive: true, verbatimSymlinks: true });
  const machine = join(folder.path, "machine.yaml");
  writeFileSync(machine, readFileSync(machine, "utf8").replace(/^( +)stdout: (?:L|q-x|topo-m)\..*$/gm, "$&\n$1delay_ms: 8000"));
  expect(readFileSync(machine, "utf8").split("delay_ms: 8000")).toHaveLength(4);
  const { exitCode, stdout } = await doctor("--machine", folder.path, "--json");
  const { findings } = v.parse(DoctorReport, JSON.parse(stdout));
  expect(findings.find((finding) => finding.id === "driver-query-hung")?.result).toBe("ok");
  expect(findings.filter((finding) => finding.result === "problem" && finding.severity !== "advise")).toEqual([]);
  expect(exitCode).toBe(0);
});
