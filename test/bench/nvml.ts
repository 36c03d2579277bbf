/** The NVML probe's bounds, with the stub library: what remains is our own share, since the real library's time is the driver's. */
import { join } from "node:path";
import { carved, h100, migDevice, snapshotWith } from "../support/nvml-snapshots.ts";
import { buildStub, COMPILER, writeScenario } from "../support/nvml-stub.ts";

const WARM_UP = 30;
const LOOKS = 100;

/** Two cards of seven instances each, six whole ones. */
function eightCards() {
  const slots = Array.from({ length: 7 }, (_, slot) => slot);
  return snapshotWith(
    Array.from({ length: 8 }, (_, n) =>
      n < 2
        ? carved(
            n,
            slots.map((slot) => migDevice(n, slot)),
          )
        : h100(n),
    ),
  );
}

export interface NvmlBench {
  /** Starts one look in a process of its own. */
  readonly oneShot: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Median of one look through a probe that is open and warm, ms, from request to parsed answer. */
  readonly warmMs: number;
}

/** `undefined` without a C compiler. */
export async function benchNvml(program: string, folder: string): Promise<NvmlBench | undefined> {
  if (COMPILER === undefined) return undefined;
  const library = buildStub(join(folder, "nvml"));
  const env = { PATH: process.env.PATH, LLMGW_NVML_STUB: writeScenario(join(folder, "nvml"), eightCards()) };
  const oneShot = [program, "nvml-probe", "--library", library];
  const child = Bun.spawn({ cmd: [...oneShot, "--serve"], env, stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  const reader = child.stdout.getReader();
  const decoder = new TextDecoder();
  const look = async (): Promise<number> => {
    const from = Bun.nanoseconds();
    child.stdin.write("\n");
    await child.stdin.flush();
    let text = "";
    while (!text.endsWith("\n")) text += decoder.decode((await reader.read()).value, { stream: true });
    const answer: unknown = JSON.parse(text);
    const tookMs = (Bun.nanoseconds() - from) / 1e6;
    if (Object(answer).kind !== "snapshot") throw new Error(text.slice(0, 300));
    return tookMs;
  };
  for (let n = 0; n < WARM_UP; n++) await look();
  const times: number[] = [];
  for (let n = 0; n < LOOKS; n++) times.push(await look());
  child.stdin.end();
  await child.exited;
  return { oneShot, env, warmMs: times.toSorted((a, b) => a - b)[LOOKS / 2] ?? Number.NaN };
}
