/** How a command ends: an answer, a mistake, a bug, an interrupt. And the note while it works. */
import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { type Output, startProgress } from "../../src/cli/context.ts";
import { reportError } from "../../src/cli/report-error.ts";
import { UserError } from "../../src/lib/user-error.ts";
import { RunnerError } from "../../src/platform/runner.ts";
import { explanation, runLlmgw } from "../support/cli.ts";
import { temporaryFolder } from "../support/folders.ts";
import { createFsRunner } from "../support/fs-runner.ts";

const CALM = { interrupted: false, trace: false };

describe("what was thrown becomes text and an exit code", () => {
  const said = { what: "a", why: "b", fix: "c" };

  test("a mistake of the person's is 2 unless the command says that the answer is no", () => {
    expect(reportError(new UserError(said), CALM)).toEqual({ text: explanation("a", "b", "c"), exitCode: 2, usage: false });
    expect(reportError(new UserError(said, { exitCode: 1 }), CALM).exitCode).toBe(1);
    expect(reportError(new UserError(said, { usage: true }), CALM).usage).toBe(true);
  });

  test("anything else is a bug of ours, 70, on one line and without a trace", () => {
    const { text, exitCode } = reportError(new TypeError("x is not\n  a function"), CALM);
    expect(text).toBe(
      explanation("x is not a function", "this is a bug in llmgw", "report it with the output of the same command and --log-level debug"),
    );
    expect(exitCode).toBe(70);
  });

  test("something thrown that is no error is a bug too", () => {
    for (const thrown of ["text", undefined, null, 7, { a: 1 }]) expect(reportError(thrown, CALM).exitCode).toBe(70);
  });

  test("with --log-level debug a bug shows where it was thrown", () => {
    expect(reportError(new Error("oops"), { interrupted: false, trace: true }).text).toMatch(/\n +at .*outcome\.test\.ts/);
  });

  test("after an interrupt everything is a consequence of it, 130", () => {
    const quiet = { text: "llmgw: interrupted\n", exitCode: 130, usage: false } as const;
    expect(reportError(new Error("pipe broke"), { interrupted: true, trace: true })).toEqual(quiet);
    expect(reportError(new UserError(said, { usage: true }), { interrupted: true, trace: false })).toEqual(quiet);
    expect(reportError(new RunnerError("aborted", "x"), CALM)).toEqual(quiet);
  });
});

describe("a command that fails", () => {
  test("a bug is reported once, with 70 and nothing on stdout", async () => {
    using folder = temporaryFolder();
    const runner = {
      ...createFsRunner(folder.path),
      listDir: () => {
        throw new UnexpectedError();
      },
      readFile: () => {
        throw new UnexpectedError();
      },
    };
    const { exitCode, stdout, stderr } = await runLlmgw(["inventory"], { runner });
    expect([exitCode, stdout]).toEqual([70, ""]);
    expect(stderr.match(/this is a bug in llmgw/g)).toHaveLength(1);
    expect(stderr).not.toContain(" at ");
    const traced = await runLlmgw(["inventory"], { runner, env: { LLMGW_LOG_LEVEL: "debug" } });
    expect(traced.stderr).toMatch(/\n +at /);
  });

  test("an interrupt while the driver is asked is 130, and nothing more is said", async () => {
    using folder = temporaryFolder();
    const stop = new AbortController();
    const runner = {
      ...createFsRunner(folder.path),
      kind: "host" as const,
      exec: async (_argv: readonly string[], options: { readonly signal?: AbortSignal } = {}) => {
        stop.abort();
        if (options.signal?.aborted === true) throw new RunnerError("aborted", "stopped");
        return undefined;
      },
    };
    expect(await runLlmgw(["inventory"], { runner, signal: stop.signal })).toEqual({
      exitCode: 130,
      stdout: "",
      stderr: "llmgw: interrupted\n",
    });
  });
});

class UnexpectedError extends Error {
  override readonly name = "UnexpectedError";
}

describe("the note that something takes its time", () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  function terminal(isTTY: boolean): Output & { readonly texts: string[] } {
    const texts: string[] = [];
    return { texts, write: (text) => void texts.push(text), isTTY, columns: isTTY ? 80 : undefined };
  }

  test("comes after a second, counts, and is cleared", () => {
    const stderr = terminal(true);
    const progress = startProgress(stderr, "looking");
    jest.advanceTimersByTime(999);
    expect(stderr.texts).toEqual([]);
    jest.advanceTimersByTime(1);
    expect(stderr.texts).toEqual(["\r\u001b[Klooking (1 s)"]);
    jest.advanceTimersByTime(2_000);
    expect(stderr.texts.at(-1)).toBe("\r\u001b[Klooking (3 s)");
    progress.done();
    expect(stderr.texts.at(-1)).toBe("\r\u001b[K");
    jest.advanceTimersByTime(10_000);
    expect(stderr.texts).toHaveLength(4);
  });

  test("is not there for something quick, not even to be cleared", () => {
    const stderr = terminal(true);
    startProgress(stderr, "looking").done();
    jest.advanceTimersByTime(10_000);
    expect(stderr.texts).toEqual([]);
  });

  test("is never written where no person looks", () => {
    const stderr = terminal(false);
    const progress = startProgress(stderr, "looking");
    jest.advanceTimersByTime(10_000);
    progress.done();
    expect(stderr.texts).toEqual([]);
    expect(jest.getTimerCount()).toBe(0);
  });
});
