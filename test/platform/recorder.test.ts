import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { openMachine } from "../../src/platform/machine.ts";
import { createRecorder } from "../../src/platform/recorder.ts";
import { type Runner, RunnerError } from "../../src/platform/runner.ts";
import { temporaryFolder } from "../support/folders.ts";

const OPTIONS = { about: "a node", raw: true, users: [], hostnames: [] };

/** A host that answers each command with its own words. */
async function echoing(): Promise<Runner> {
  const inner = await openMachine("cpu-only", { waits: "skip" });
  return {
    ...inner,
    exec: async (argv) => {
      if (argv.includes("busy")) throw new RunnerError("busy", "an earlier query hangs");
      if (argv.includes("hangs")) throw new RunnerError("timeout", "no answer");
      return { exitCode: 0, stdout: argv.join(" "), stderr: "", truncated: false };
    },
  };
}

test("commands whose names would be one file's are kept apart, and long ones have short names", async () => {
  using folder = temporaryFolder();
  const recorder = createRecorder(await echoing(), []);
  const commands = [
    ["tool", "-a", "b"],
    ["tool", "--a/b"],
    ["tool", "a", "b"],
    ["tool", "x".repeat(300)],
    ["tool", `${"x".repeat(299)}y`],
  ];
  for (const argv of commands) await recorder.runner.exec(argv);
  const to = join(folder.path, "m");
  recorder.write(to, OPTIONS);
  const replayed = await openMachine(to);
  for (const argv of commands) expect((await replayed.exec(argv))?.stdout).toBe(argv.join(" "));
  expect(readdirSync(to).every((name) => name.length <= 100)).toBe(true);
});

test("a command that was not asked, because another hung, replays as that and not as one that hangs", async () => {
  using folder = temporaryFolder();
  const recorder = createRecorder(await echoing(), []);
  for (const word of ["busy", "hangs"]) await recorder.runner.exec(["tool", word]).catch(() => undefined);
  const to = join(folder.path, "m");
  recorder.write(to, OPTIONS);
  const replayed = await openMachine(to, { waits: "skip" });
  const kindOf = async (word: string) => (await replayed.exec(["tool", word]).catch((error: unknown) => error)) as RunnerError;
  expect((await kindOf("busy")).kind).toBe("busy");
  expect((await kindOf("hangs")).kind).toBe("timeout");
});
