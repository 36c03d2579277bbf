import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildTarget, hostTarget } from "../build.ts";
import packageJson from "../package.json" with { type: "json" };

/** The built program, in a folder of its own, far from sources and node_modules. */
const folder = mkdtempSync(join(tmpdir(), "llmgw-build-"));
let program = "";

beforeAll(async () => {
  program = await buildTarget(hostTarget(), folder, "0123456789ab");
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(...args: readonly string[]): { readonly exitCode: number; readonly stdout: string; readonly stderr: string } {
  const done = Bun.spawnSync({
    cmd: [program, ...args],
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder },
    stdout: "pipe",
    stderr: "pipe",
  });
  return { exitCode: done.exitCode, stdout: done.stdout.toString(), stderr: done.stderr.toString() };
}

test("the built program tells its version and commit", () => {
  expect(run("--version")).toEqual({ exitCode: 0, stdout: `llmgw ${packageJson.version} (0123456789ab)\n`, stderr: "" });
});

test("the built program shows a machine that it carries, from another folder and without node_modules", () => {
  const shown = run("inventory", "--machine", "h100-nvswitch-8");
  expect(shown.exitCode).toBe(0);
  expect(shown.stdout).toContain("GPUs (8, via nvidia-smi)");
  expect(shown.stdout).toContain("h100-80g × 8");
  expect(shown.stderr).toContain("h100-nvswitch-8");
});

test("the built program reads no .env of the folder it is started in", () => {
  writeFileSync(join(folder, ".env"), "LLMGW_MACHINE=no-such-machine\n");
  expect(run("inventory", "--no-gpu", "--json").exitCode).toBe(0);
});

test("a mistake ends with 2 and a suggestion, on stderr", () => {
  const mistake = run("inventroy");
  expect(mistake.exitCode).toBe(2);
  expect(mistake.stdout).toBe("");
  expect(mistake.stderr).toContain("inventory");
});
