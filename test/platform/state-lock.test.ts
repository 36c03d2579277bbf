import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { takeStateLock } from "../../src/platform/state-lock.ts";
import { temporaryFolder } from "../support/folders.ts";

const SOURCE = join(import.meta.dir, "../../src/platform/state-lock.ts");

test("a folder in use by a living process is refused with its pid, and free once that was killed", async () => {
  using folder = temporaryFolder();
  const holder = Bun.spawn({
    cmd: [
      process.execPath,
      "-e",
      `import { takeStateLock } from "${SOURCE}"; takeStateLock(process.argv[1], "agent"); console.log("held"); setInterval(() => {}, 1e6);`,
      folder.path,
    ],
    stdout: "pipe",
  });
  const reader = holder.stdout.getReader();
  await reader.read();
  expect(() => takeStateLock(folder.path, "agent")).toThrow(
    expect.objectContaining({ why: `process ${holder.pid} holds agent.lock there` }),
  );
  holder.kill("SIGKILL");
  await holder.exited;
  takeStateLock(folder.path, "agent").release();
  expect(readdirSync(folder.path)).toEqual([]);
});

test("two kinds of program share a folder", () => {
  using folder = temporaryFolder();
  const locks = [takeStateLock(folder.path, "agent"), takeStateLock(folder.path, "server")];
  expect(readdirSync(folder.path).sort()).toEqual(["agent.lock", "server.lock"]);
  for (const lock of locks) lock.release();
});

test("a lock of another boot, of a pid that is another process now, or of garbage holds nobody out", () => {
  using folder = temporaryFolder();
  const path = join(folder.path, "server.lock");
  for (const content of [
    JSON.stringify({ version: 1, boot_id: "another", pid: 1, start_ticks: 0 }),
    JSON.stringify({
      version: 1,
      boot_id: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
      pid: 1,
      start_ticks: 999_999_999,
    }),
    "",
    "{",
  ]) {
    writeFileSync(path, content);
    takeStateLock(folder.path, "server").release();
    expect(existsSync(path)).toBe(false);
  }
});

test("a folder that is not there is named", () => {
  expect(() => takeStateLock("/nowhere/at/all", "server")).toThrow(
    expect.objectContaining({ what: "the state folder /nowhere/at/all cannot be used" }),
  );
});
