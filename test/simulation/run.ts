/** Replays seeds by hand: `bun test/simulation/run.ts --seed N` tells everything, `--seeds FROM-TO` only what broke. */
import { parseArgs } from "node:util";
import { playWorld } from "./world.ts";

const { values } = parseArgs({ options: { seed: { type: "string" }, seeds: { type: "string" } } });
const [from = 1, to = from] = (values.seeds ?? values.seed ?? "1").split("-").map(Number);
const tell = values.seed === undefined ? undefined : (line: string): void => void process.stdout.write(`${line}\n`);
let broken = 0;
for (let seed = from; seed <= to; seed++) {
  const verdict = await playWorld({ seed, ...(tell === undefined ? {} : { tell }) });
  if (verdict.broken.length === 0) continue;
  broken++;
  process.stdout.write(`seed ${seed}: ${verdict.broken.join("; ")}\n`);
}
process.stdout.write(`${to - from + 1} seeds, ${broken} broken\n`);
process.exitCode = broken === 0 ? 0 : 1;
