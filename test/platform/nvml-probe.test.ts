/** The probe as a child of this program: one shot, long-lived, hung, planted libraries. Needs a C compiler; skipped by name without. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildTarget, hostTarget } from "../../build.ts";
import { createHostRunner } from "../../src/platform/host-runner.ts";
import { createNvmlClient, type NvmlClient } from "../../src/platform/nvml-client.ts";
import { processState } from "../../src/platform/processes.ts";
import { takeRound } from "../../src/platform/round-lock.ts";
import { RunnerError } from "../../src/platform/runner.ts";
import { carved, h100, migDevice, snapshotWith, withoutCodes } from "../support/nvml-snapshots.ts";
import { buildStub, COMPILER, writeScenario } from "../support/nvml-stub.ts";

const MAIN = join(import.meta.dir, "../../src/main.ts");
const PROBE = [process.execPath, MAIN, "nvml-probe"];
const folder = mkdtempSync(join(tmpdir(), "llmgw-probe-"));
const snapshot = snapshotWith([h100(0), carved(1, [migDevice(1, 2)])]);
let library = "";

beforeAll(() => {
  if (COMPILER !== undefined) library = buildStub(join(folder, "lib"));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** An environment whose stub answers from that file. */
function env(scenario: string): Record<string, string | undefined> {
  return { PATH: process.env.PATH, HOME: folder, LLMGW_NVML_STUB: scenario };
}

function scenarioIn(name: string, more: Readonly<Record<string, string | number>> = {}): string {
  return writeScenario(join(folder, name), snapshot, more);
}

function runner(scenario: string, probe: readonly string[] = PROBE) {
  return createHostRunner({ env: env(scenario), nvmlProbe: probe, roundLock: { folders: [join(folder, "run")] } });
}

async function failure(promise: Promise<unknown> | undefined): Promise<RunnerError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof RunnerError) return error;
    throw error;
  }
  throw new Error("it did not fail");
}

describe.skipIf(COMPILER === undefined)("the NVML probe (needs a C compiler)", () => {
  test("one shot gives the snapshot, and the parent has not loaded the library", async () => {
    const found = await runner(scenarioIn("one")).nvml?.({ library });
    expect(found === undefined ? undefined : withoutCodes(found)).toEqual({ ...snapshot, library });
    expect(await Bun.file("/proc/self/maps").text()).not.toContain(library);
  });

  test("a library that does not start is an error in its words", async () => {
    const error = await failure(runner(scenarioIn("mismatch", { init: 18 })).nvml?.({ library }));
    expect(error.kind).toBe("io");
    expect(error.message).toContain("different versions");
  });

  test("a library that hangs is given up at the limit, and nothing is left of it", async () => {
    const host = runner(scenarioIn("hang", { "gpu.1.sleep.nvmlDeviceGetUUID": 60_000 }));
    const from = performance.now();
    const error = await failure(host.nvml?.({ library, timeoutMs: 600 }));
    expect(error.kind).toBe("timeout");
    expect(error.message).toBe("NVML did not answer within 0.6 s");
    expect(performance.now() - from).toBeLessThan(1_600);
  });

  test("a probe that dies, or that answers nonsense, is an error", async () => {
    const dies = await failure(runner(scenarioIn("dies"), ["/bin/sh", "-c", "kill -SEGV $$"]).nvml?.({ library }));
    expect(dies.message).toContain("ended with 139");
    const babbles = await failure(runner(scenarioIn("babbles"), ["/bin/echo", "hello"]).nvml?.({ library }));
    expect(babbles.message).toContain("cannot be read");
  });

  test("a library planted in the current folder or in LD_LIBRARY_PATH is not loaded; one that is named is", () => {
    const planted = join(folder, "planted");
    mkdirSync(planted, { recursive: true });
    copyFileSync(library, join(planted, "libnvidia-ml.so.1"));
    const scenario = scenarioIn("planted", { driver_version: "666.66" });
    const look = (...args: readonly string[]): string => {
      const run = Bun.spawnSync({ cmd: [...PROBE, ...args], cwd: planted, env: { ...env(scenario), LD_LIBRARY_PATH: planted } });
      return run.stdout.toString();
    };
    expect(look()).not.toContain("666.66");
    expect(look("--library", "libnvidia-ml.so.1")).toContain("is not an absolute path");
    expect(look("--library", join(planted, "libnvidia-ml.so.1"))).toContain("666.66");
  });

  test("the compiled program reads the library the same way, once and served", async () => {
    const program = await buildTarget(hostTarget(), join(folder, "build"), "0123456789ab");
    const scenario = scenarioIn("compiled", { "gpu.0.lost_after": 4 });
    const found = await runner(scenario, [program, "nvml-probe"]).nvml?.({ library });
    expect(found?.cards.map((card) => [card.uuid, card.error?.code])).toEqual([
      [h100(0).uuid, 15],
      [h100(1).uuid, undefined],
    ]);
    const served = Bun.spawnSync({
      cmd: [program, "nvml-probe", "--serve", "--library", library],
      env: env(scenario),
      stdin: Buffer.from("\n\n"),
    });
    expect(served.stdout.toString().trim().split("\n").length).toBe(2);
    // By itself it finds what it needs to start its own probe.
    const own = Bun.spawnSync({
      cmd: [program, "inventory", "--only-gpus", "--json", "--nvml-library", library],
      env: { ...env(scenario), PATH: "/nowhere", LLMGW_RUNTIME_DIR: join(folder, "run-own") },
    });
    expect(JSON.parse(own.stdout.toString())).toMatchObject({ source: "nvml", gpus: [{ label: "1/mig2" }] });
  }, 120_000);
});

describe.skipIf(COMPILER === undefined)("the long-lived NVML probe (needs a C compiler)", () => {
  const clients: NvmlClient[] = [];

  function client(scenario: string, probe: readonly string[] = PROBE, timeoutMs = 5_000): NvmlClient {
    const made = createNvmlClient({
      probe,
      env: env(scenario),
      roundLock: { folders: [join(folder, `run-${clients.length}`)] },
      library,
      timeoutMs,
      backoffMs: 50,
    });
    clients.push(made);
    return made;
  }

  afterAll(() => Promise.all(clients.map((made) => made.stop())));

  test("each request gives the state of that moment, from one and the same process", async () => {
    const pids = join(folder, "pids");
    const asked = client(scenarioIn("served"), ["/bin/sh", "-c", `echo $$ >> ${pids}; exec "$@"`, "sh", ...PROBE]);
    const first = await asked.snapshot();
    const second = await asked.snapshot();
    expect(first?.cards.length).toBe(2);
    expect(second).toEqual(first);
    const started = (await Bun.file(pids).text()).trim().split("\n");
    expect(started.length).toBe(1);
    await asked.stop();
    expect(processState(Number(started[0]))).toBeUndefined();
    expect((await failure(asked.snapshot())).kind).toBe("aborted");
  });

  test("a second request while one runs is refused, not queued", async () => {
    const asked = client(scenarioIn("twice", { "sleep.init": 200 }));
    const first = asked.snapshot();
    expect((await failure(asked.snapshot())).kind).toBe("busy");
    expect((await first)?.cards.length).toBe(2);
  });

  test("one that hangs is ended at the limit, refused for a moment, then started again", async () => {
    const scenario = scenarioIn("hangs-once", { "gpu.0.sleep.nvmlDeviceGetUUID": 60_000 });
    const asked = client(scenario, PROBE, 700);
    const from = performance.now();
    const hung = await failure(asked.snapshot());
    expect(hung.kind).toBe("timeout");
    expect(performance.now() - from).toBeLessThan(1_700);
    expect(processState(hung.pid ?? 0)).toBeUndefined();
    expect((await failure(asked.snapshot())).message).toContain("starts again in");
    scenarioIn("hangs-once");
    expect(await eventually(asked)).toBe(2);
  });

  test("one that dies between two requests is started again", async () => {
    const once = join(folder, "died");
    const dies = `if [ -e ${once} ]; then exec "$@"; else touch ${once}; exit 3; fi`;
    const asked = client(scenarioIn("dies-once"), ["/bin/sh", "-c", dies, "sh", ...PROBE]);
    expect((await failure(asked.snapshot())).message).toContain("ended without an answer");
    expect(await eventually(asked)).toBe(2);
  });

  test("while a process of an earlier look hangs, no probe starts; once it is gone, one does", async () => {
    const started = join(folder, "started");
    const asked = client(scenarioIn("stuck"), ["/bin/sh", "-c", `touch ${started}; exec "$@"`, "sh", ...PROBE]);
    const stuck = Bun.spawn({ cmd: ["sleep", "600"], detached: true, stdio: ["ignore", "ignore", "ignore"] });
    try {
      // What a probe that outlived SIGKILL leaves behind.
      const round = await takeRound({ folders: [join(folder, `run-${clients.length - 1}`)] });
      round.add(stuck.pid);
      round.end();
      const refused = await failure(asked.snapshot());
      expect([refused.kind, refused.pid]).toEqual(["busy", stuck.pid]);
      expect(existsSync(started)).toBe(false);
    } finally {
      process.kill(-stuck.pid, "SIGKILL");
      await stuck.exited;
    }
    expect((await asked.snapshot())?.cards.length).toBe(2);
  });

  test("a library that fails in words does not cost the process", async () => {
    const asked = client(scenarioIn("fails", { init: 9 }));
    expect((await failure(asked.snapshot())).message).toContain("not loaded");
    scenarioIn("fails");
    expect((await asked.snapshot())?.cards.length).toBe(2);
  });

  /** Asks until the wait after a failure is over. */
  async function eventually(asked: NvmlClient): Promise<number | undefined> {
    for (;;) {
      try {
        return (await asked.snapshot())?.cards.length;
      } catch (error) {
        if (!(error instanceof RunnerError) || error.kind !== "busy") throw error;
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }
});
