import { expect, test } from "bun:test";
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createHostRunner } from "../../src/platform/host-runner.ts";
import { groupLives, processState } from "../../src/platform/processes.ts";
import { takeRound } from "../../src/platform/round-lock.ts";
import { type Runner, RunnerError } from "../../src/platform/runner.ts";
import { temporaryFolder } from "../support/folders.ts";
import { until } from "../support/processes.ts";

const env = { PATH: process.env.PATH, HOME: "/nowhere" };

function runner(folder: string): Runner {
  return createHostRunner({ env, roundLock: { folders: [folder], waitMs: 5_000 } });
}

async function failure(promise: Promise<unknown>): Promise<RunnerError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof RunnerError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

test("a command's output and exit code are an answer, whatever the code", async () => {
  using folder = temporaryFolder();
  const result = await runner(folder.path).exec(["sh", "-c", "echo out; echo err >&2; exit 3"]);
  expect(result).toEqual({ exitCode: 3, stdout: "out\n", stderr: "err\n", truncated: false });
});

test("a signal counts as 128 and its number", async () => {
  using folder = temporaryFolder();
  const result = await runner(folder.path).exec(["sh", "-c", "kill -TERM $$"]);
  expect(result?.exitCode).toBe(143);
});

test("a program that is not there is absent, by name and by path", async () => {
  using folder = temporaryFolder();
  expect(await runner(folder.path).exec(["llmgw-no-such-program"])).toBeUndefined();
  expect(await runner(folder.path).exec(["/no/such/program"])).toBeUndefined();
});

test("a program that may not be run is a refusal, not an absence", async () => {
  using folder = temporaryFolder();
  const path = join(folder.path, "program");
  writeFileSync(path, "#!/bin/sh\n", { mode: 0o644 });
  expect((await failure(runner(folder.path).exec([path]))).kind).toBe("denied");
});

test("output beyond the cap is dropped and said to be", async () => {
  using folder = temporaryFolder();
  const result = await runner(folder.path).exec(["sh", "-c", "yes | head -c 300000"], { maxBytes: 1000 });
  expect(result?.stdout.length).toBe(1000);
  expect(result?.truncated).toBe(true);
  expect(result?.exitCode).toBe(0);
});

test("at the limit the caller is answered and the whole group is ended, children that ignore SIGTERM too", async () => {
  using folder = temporaryFolder();
  const pidFile = join(folder.path, "pid");
  const script = `trap '' TERM; sh -c "trap '' TERM; echo \\$\\$ > ${pidFile}; sleep 600" & wait`;
  const error = await failure(runner(folder.path).exec(["sh", "-c", script], { timeoutMs: 300 }));
  expect(error.kind).toBe("timeout");
  expect(error.message).toContain("did not answer within 0.3 s");
  const child = Number(readFileSync(pidFile, "utf8"));
  expect(processState(child)).toBeUndefined();
});

test("a child that holds the pipe after its parent has ended does not hold the caller", async () => {
  using folder = temporaryFolder();
  const result = await runner(folder.path).exec(["sh", "-c", "sleep 600 & echo $!"], { timeoutMs: 5_000 });
  expect(result?.exitCode).toBe(0);
  const child = Number(result?.stdout);
  expect(processState(child)?.name).toBe("sleep");
  process.kill(child, "SIGKILL");
});

test("an aborted caller is answered and the process ended", async () => {
  using folder = temporaryFolder();
  const stop = new AbortController();
  const waiting = failure(runner(folder.path).exec(["sleep", "600"], { signal: stop.signal }));
  stop.abort();
  expect((await waiting).kind).toBe("aborted");
});

test("commands of one round run side by side under one lock, which is gone afterwards", async () => {
  using folder = temporaryFolder();
  const host = runner(folder.path);
  const lock = join(folder.path, "driver-round.json");
  const seen = await Promise.all([1, 2, 3].map(() => host.exec(["sh", "-c", `cat ${lock}`], { lock: "driver" })));
  for (const result of seen) expect(JSON.parse(result?.stdout ?? "")).toMatchObject({ active: true, holder: { pid: process.pid } });
  expect(existsSync(lock)).toBe(false);
});

test("while a process left by an earlier round lives, no new round starts, in other runners too", async () => {
  using folder = temporaryFolder();
  const stuck = Bun.spawn({ cmd: ["sleep", "600"], detached: true, stdio: ["ignore", "ignore", "ignore"] });
  try {
    // What a process that outlived SIGKILL leaves behind: a round that is over with a living child.
    const round = await takeRound({ folders: [folder.path] });
    round.add(stuck.pid);
    round.end();
    const error = await failure(runner(folder.path).exec(["true"], { lock: "driver" }));
    expect(error.kind).toBe("busy");
    expect(error.pid).toBe(stuck.pid);
    expect(await runner(folder.path).exec(["true"])).toMatchObject({ exitCode: 0 });
  } finally {
    process.kill(-stuck.pid, "SIGKILL");
    await stuck.exited;
  }
  expect(groupLives(stuck.pid)).toBe(false);
  expect(await runner(folder.path).exec(["true"], { lock: "driver" })).toMatchObject({ exitCode: 0 });
});

test("a lock whose holder died, and one of another boot, are taken over", async () => {
  using folder = temporaryFolder();
  const lock = join(folder.path, "driver-round.json");
  const dead = {
    version: 1,
    boot_id: "another",
    holder: { pid: 1, start_ticks: 1 },
    active: true,
    started_at_ms: 0,
    children: [{ pid: 1, start_ticks: 1 }],
  };
  writeFileSync(lock, JSON.stringify(dead));
  expect(await runner(folder.path).exec(["true"], { lock: "driver" })).toMatchObject({ exitCode: 0 });
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  writeFileSync(lock, JSON.stringify({ ...dead, boot_id: bootId, holder: { pid: process.pid, start_ticks: 1 }, children: [] }));
  expect(await runner(folder.path).exec(["true"], { lock: "driver" })).toMatchObject({ exitCode: 0 });
});

test("what stands in the lock's place and no llmgw wrote holds nobody out", async () => {
  using folder = temporaryFolder();
  const lock = join(folder.path, "driver-round.json");
  for (const content of ["", "{", "[]", '{"version":1}']) {
    writeFileSync(lock, content);
    expect(await runner(folder.path).exec(["true"], { lock: "driver" })).toMatchObject({ exitCode: 0 });
    expect(existsSync(lock)).toBe(false);
  }
});

test("a lock is never seen without its content, however many take and leave it", async () => {
  using folder = temporaryFolder();
  const lock = join(folder.path, "driver-round.json");
  // Another process, since this one cannot look while it writes. It looks some hundred thousand times a second.
  const script = `
    const { existsSync, statSync } = require("node:fs");
    let empty = 0;
    console.log("looking");
    while (!existsSync(process.argv[1] + ".stop")) {
      for (let at = 0; at < 1000; at++) if (statSync(process.argv[1], { throwIfNoEntry: false })?.size === 0) empty++;
    }
    console.log(empty);
  `;
  const watcher = Bun.spawn({ cmd: [process.execPath, "-e", script, lock], stdout: "pipe" });
  const reader = watcher.stdout.getReader();
  await reader.read();
  for (let at = 0; at < 1_500; at++) (await takeRound({ folders: [folder.path] })).end();
  writeFileSync(`${lock}.stop`, "");
  expect(new TextDecoder().decode((await reader.read()).value).trim()).toBe("0");
  await watcher.exited;
});

test("a path that hangs is not looked at again until it has answered, and others are", async () => {
  using folder = temporaryFolder();
  const fifo = join(folder.path, "adapter");
  Bun.spawnSync({ cmd: ["mkfifo", fifo] });
  writeFileSync(join(folder.path, "other"), "well");
  const host = runner(folder.path);
  expect((await failure(host.readFile(fifo, { timeoutMs: 30 }))).message).toContain("did not answer within 0.03 s");
  for (let at = 0; at < 50; at++) {
    expect((await failure(host.readFile(fifo, { timeoutMs: 10_000 }))).message).toContain("has not answered an earlier look yet");
  }
  expect(new TextDecoder().decode(await host.readFile(join(folder.path, "other")))).toBe("well");
  // The one look that waits is answered, and then the path counts again.
  writeFileSync(fifo, "back");
  await until(
    async () => (await host.stat(fifo).catch(() => undefined)) !== undefined,
    () => "the path is still taken for hanging",
  );
});

test("a round of another living process is waited for", async () => {
  using folder = temporaryFolder();
  const script = `
    const { takeRound } = await import(${JSON.stringify(join(import.meta.dir, "../../src/platform/round-lock.ts"))});
    const round = await takeRound({ folders: [${JSON.stringify(folder.path)}] });
    console.log("held");
    process.stdin.once("data", () => { round.end(); process.exit(0); });
  `;
  const other = Bun.spawn({ cmd: [process.execPath, "-e", script], stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  await other.stdout.getReader().read();
  let answered = false;
  const waiting = runner(folder.path)
    .exec(["true"], { lock: "driver" })
    .then(() => {
      answered = true;
    });
  await runner(folder.path).exec(["true"]);
  expect(answered).toBe(false);
  other.stdin.write("go\n");
  await other.stdin.flush();
  await waiting;
  expect(answered).toBe(true);
  await other.exited;
});

test("absent, unreadable and other files are told apart", async () => {
  using folder = temporaryFolder();
  const host = runner(folder.path);
  const file = join(folder.path, "file");
  writeFileSync(file, "0123456789");
  symlinkSync("file", join(folder.path, "link"));
  symlinkSync("nowhere", join(folder.path, "dangling"));
  expect(new TextDecoder().decode(await host.readFile(file, { offset: 2, maxBytes: 3 }))).toBe("234");
  expect(await host.readFile(join(folder.path, "missing"))).toBeUndefined();
  expect(await host.readFile(join(file, "below"))).toBeUndefined();
  expect((await failure(host.readFile(folder.path))).kind).toBe("io");
  expect(await host.readLink(join(folder.path, "link"))).toBe("file");
  expect(await host.readLink(file)).toBeUndefined();
  expect(await host.realPath(join(folder.path, "dangling"))).toBeUndefined();
  expect(await host.stat(join(folder.path, "link"))).toMatchObject({ kind: "file", sizeBytes: 10 });
  expect(await host.listDir(folder.path)).toEqual(["dangling", "file", "link"]);
  expect(await host.listDir(join(folder.path, "missing"))).toBeUndefined();
  expect((await host.diskSpace(folder.path))?.total_bytes).toBeGreaterThan(0);
  expect(await host.diskSpace(join(folder.path, "missing"))).toBeUndefined();
});

test("files of /proc, which have no size, are read whole and capped", async () => {
  using folder = temporaryFolder();
  const host = runner(folder.path);
  expect(new TextDecoder().decode(await host.readFile("/proc/self/stat"))).toContain(`${process.pid} (`);
  expect((await host.readFile("/proc/self/maps", { maxBytes: 10 }))?.length).toBe(10);
});
