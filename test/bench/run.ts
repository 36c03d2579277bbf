/**
 * Speed, as ratios and differences against something run beside it in the same minute: `bun test/bench/run.ts`. Exit 1 when a bound of
 * DESIGN.md, section 10, does not hold. Medians over pairs, so that a slow moment of the machine hits both sides.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildTarget, hostTarget } from "../../build.ts";
import { benchAgent } from "./agent.ts";
import { benchNvml } from "./nvml.ts";
import { benchServer } from "./server.ts";

const RUNS = 15;
const folder = mkdtempSync(join(tmpdir(), "llmgw-bench-"));

interface Outcome {
  readonly name: string;
  readonly text: string;
  readonly holds: boolean;
}

/** Wall time of one whole process, ms. */
function timed(cmd: readonly string[], env: Readonly<Record<string, string | undefined>> = process.env): number {
  const from = Bun.nanoseconds();
  const run = Bun.spawnSync({ cmd: [...cmd], env: { ...env }, stdout: "ignore", stderr: "pipe" });
  const tookMs = (Bun.nanoseconds() - from) / 1e6;
  if (run.exitCode !== 0) throw new Error(`${cmd.join(" ")}: exit ${run.exitCode}: ${run.stderr.toString().slice(0, 300)}`);
  return tookMs;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Both commands in turn, after one run of each that is not counted. */
function pairs(
  a: readonly string[],
  b: readonly string[],
  env?: Readonly<Record<string, string | undefined>>,
): { readonly a: number; readonly b: number; readonly difference: number } {
  timed(a, env);
  timed(b, env);
  const runs = Array.from({ length: RUNS }, () => ({ a: timed(a, env), b: timed(b, env) }));
  return { a: median(runs.map((run) => run.a)), b: median(runs.map((run) => run.b)), difference: median(runs.map((run) => run.a - run.b)) };
}

async function helloWorld(): Promise<string> {
  const source = join(folder, "hello.ts");
  writeFileSync(source, 'process.stdout.write("hello\\n");\n');
  const outfile = join(folder, "hello");
  const result = await Bun.build({
    entrypoints: [source],
    compile: { target: `bun-${hostTarget()}`, outfile },
    minify: true,
    bytecode: true,
    format: "esm",
  });
  if (!result.success) throw new Error("the hello-world program did not build");
  return outfile;
}

function report(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** A copy of a fake whose three nvidia-smi calls take 200 ms each. */
function slowMachine(): string {
  const from = join(import.meta.dir, "../../fakes/machines/h100-nvswitch-8");
  const to = join(folder, "slow-machine");
  mkdirSync(to, { recursive: true });
  Bun.spawnSync({ cmd: ["cp", "-a", `${from}/.`, to] });
  const yaml = readFileSync(join(from, "machine.yaml"), "utf8");
  writeFileSync(join(to, "machine.yaml"), yaml.replace(/^( +)stdout: .*$/gm, "$&\n$1delay_ms: 200"));
  return to;
}

const program = await buildTarget(hostTarget(), folder, "bench");
const hello = await helloWorld();
const outcomes: Outcome[] = [];

const start = pairs([program, "--version"], [hello]);
outcomes.push({
  name: "start to --version against a hello-world program",
  text: `${start.a.toFixed(1)} ms against ${start.b.toFixed(1)} ms, ${start.difference.toFixed(1)} ms more (bound: 20 ms in all)`,
  holds: start.a <= 20,
});

const slow = pairs([program, "inventory", "--json", "--machine", slowMachine()], ["sleep", "0.2"]);
outcomes.push({
  name: "inventory whose nvidia-smi calls take 200 ms each against sleep 0.2",
  text: `${slow.a.toFixed(1)} ms against ${slow.b.toFixed(1)} ms, ${slow.difference.toFixed(1)} ms more (bound: 25 ms more)`,
  holds: slow.difference <= 25,
});

const nvml = await benchNvml(program, folder);
if (nvml === undefined) {
  report("skipped  NVML through the stub library: there is no C compiler");
} else {
  outcomes.push({
    name: "look through NVML at 8 cards and 14 instances, stub library, probe open and warm",
    text: `${nvml.warmMs.toFixed(2)} ms (bound: 5 ms)`,
    holds: nvml.warmMs <= 5,
  });
  const oneShot = pairs(nvml.oneShot, [program, "--version"], nvml.env);
  outcomes.push({
    name: "one-shot probe against the start alone",
    text: `${oneShot.a.toFixed(1)} ms against ${oneShot.b.toFixed(1)} ms, ${oneShot.difference.toFixed(1)} ms more (bound: 60 ms more)`,
    holds: oneShot.difference <= 60,
  });
}

const cluster = await benchServer(program, folder);
outcomes.push(
  {
    name: "1,000 agents on one server: joined, connected, all that they have stored",
    text: `${(cluster.connectedMs / 1000).toFixed(1)} s (no bound)`,
    holds: true,
  },
  {
    name: "memory of the server for each agent",
    text: `${cluster.kibPerAgent.toFixed(0)} KiB (bound: 150)`,
    holds: cluster.kibPerAgent <= 150,
  },
  { name: "server at rest with 1,000 agents", text: `${(cluster.restShare * 100).toFixed(1)} % of one core (no bound)`, holds: true },
  {
    name: "llmgw ctl nodes, 1,000 nodes, whole process",
    text: `${cluster.ctlNodesMs.toFixed(0)} ms (bound: 100)`,
    holds: cluster.ctlNodesMs <= 100,
  },
  {
    name: "all agents connected again after the server was killed and listens again",
    text: `${(cluster.reconnectMs / 1000).toFixed(1)} s (bound: 10)`,
    holds: cluster.reconnectMs <= 10_000,
  },
);

const agent = await benchAgent(program, folder);
outcomes.push(
  {
    name: "agent at rest, 8 recorded cards, memory",
    text: `${agent.residentMib.toFixed(0)} MiB (bound: 64)`,
    holds: agent.residentMib <= 64,
  },
  {
    name: "agent at rest, over two minutes with every look in them",
    text: `${(agent.share * 100).toFixed(2)} % of one core (bound: 0.2)`,
    holds: agent.share <= 0.002,
  },
);

for (const outcome of outcomes) report(`${outcome.holds ? "holds" : "FAILS"}  ${outcome.name}: ${outcome.text}`);
rmSync(folder, { recursive: true, force: true });
process.exitCode = outcomes.every((outcome) => outcome.holds) ? 0 : 1;
