import { type Runner, RunnerError } from "../../platform/runner.ts";
import { CALL_TIME_MS, CONCURRENT_CALLS, MAX_TIMEOUTS } from "./limits.ts";

/**
 * A runner that lets a few calls through at once and gives each a time limit. The scan can then ask for whole folders side by side
 * without flooding a network disk that engines load from at the same time. After a few calls that were not answered it asks no more:
 * each would wait as long, for every file of a disk that is gone.
 */
export function patientRunner(runner: Runner): Runner {
  let free = CONCURRENT_CALLS;
  let waiting: (() => void)[] = [];
  let served = 0;
  let timeouts = 0;
  // An index and not shift(), which moves the whole queue: a folder may put a hundred thousand calls into it.
  const nextWaiting = () => {
    const next = waiting[served++];
    if (next === undefined) {
      waiting = [];
      served = 0;
    }
    return next;
  };
  const inTurn = async <T>(call: () => Promise<T>): Promise<T> => {
    if (free === 0) await new Promise<void>((resolve) => waiting.push(resolve));
    else free--;
    try {
      if (timeouts >= MAX_TIMEOUTS) throw new RunnerError("timeout", "not asked any more: the disk did not answer");
      return await call();
    } catch (thrown) {
      if (thrown instanceof RunnerError && thrown.kind === "timeout") timeouts++;
      throw thrown;
    } finally {
      // The turn passes on directly: were it given back first, a newcomer could take it and the queue would starve.
      const next = nextWaiting();
      if (next === undefined) free++;
      else next();
    }
  };
  const limited = { timeoutMs: CALL_TIME_MS };
  return {
    label: runner.label,
    kind: runner.kind,
    home: runner.home,
    exec: (argv, options) => runner.exec(argv, options),
    readFile: (path, options) =>
      inTurn(() => runner.readFile(path, { ...options, timeoutMs: Math.min(options?.timeoutMs ?? CALL_TIME_MS, CALL_TIME_MS) })),
    listDir: (path) => inTurn(() => runner.listDir(path, limited)),
    readLink: (path) => inTurn(() => runner.readLink(path)),
    realPath: (path) => inTurn(() => runner.realPath(path, limited)),
    stat: (path) => inTurn(() => runner.stat(path, limited)),
    diskSpace: (path) => inTurn(() => runner.diskSpace(path)),
    now: () => runner.now(),
  };
}
