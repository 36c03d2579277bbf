/**
 * The driver asked before the program has loaded what will read its answers: nvidia-smi takes a fifth of a second and more, and the command
 * line, the schemas and the parsers are loaded while it thinks. Only where it is certain that exactly these calls follow; whoever asks the
 * runner for them is handed the calls that are under way.
 */
import type { ExecOptions, ExecResult, Runner } from "../platform/runner.ts";
import { NVIDIA_SMI_FORMS, NVIDIA_SMI_TIMEOUT_MS } from "./nvidia-forms.ts";

/** Words that change nothing about what the driver is asked. A flag with a value stands with it. */
const HARMLESS = ["--json", "--no-color"];
const WITH_VALUE = ["--machine", "--log-level"];

/** The machine of a plain `inventory`; `undefined` for any other command line, also for one that will be refused. */
export function plainInventory(argv: readonly string[]): { readonly machine: string | undefined } | undefined {
  const left = [...argv];
  const seen = new Set<string>();
  let machine: string | undefined;
  let commands = "";
  for (let word = left.shift(); word !== undefined; word = left.shift()) {
    if (seen.has(word)) return undefined;
    seen.add(word);
    if (HARMLESS.includes(word)) continue;
    if (WITH_VALUE.includes(word)) {
      const value = left.shift();
      if (value === undefined || value.startsWith("-")) return undefined;
      if (word === "--machine") machine = value;
    } else if (/^[a-z]+$/.test(word)) commands += ` ${word}`;
    else return undefined;
  }
  return commands === " inventory" || commands === " agent inventory" ? { machine } : undefined;
}

export interface EarlyOptions {
  /** Whether NVIDIA's library is there: then `-q -x` is not asked on a host. */
  readonly library: boolean;
  readonly signal: AbortSignal;
}

/** Asks, and returns the runner that hands those answers out, each once. With an agent.yaml nothing is asked: it may say otherwise. */
export async function askEarly(runner: Runner, agentConfig: string, { library, signal }: EarlyOptions): Promise<Runner> {
  try {
    if ((await runner.stat(agentConfig)) !== undefined) return runner;
  } catch {
    return runner;
  }
  const forms = NVIDIA_SMI_FORMS.filter((form) => runner.kind === "recorded" || !library || form.join(" ") !== "-q -x");
  const options: ExecOptions = { timeoutMs: NVIDIA_SMI_TIMEOUT_MS, lock: "driver", signal };
  const asked = new Map<string, Promise<ExecResult | undefined>>();
  for (const form of forms) {
    const argv = ["nvidia-smi", ...form];
    const answer = runner.exec(argv, options);
    // Whoever takes it meets its failure; until then it is nobody's.
    answer.catch(() => undefined);
    asked.set(argv.join(" "), answer);
  }
  return {
    ...runner,
    exec: (argv, execOptions) => {
      const key = argv.join(" ");
      const early = asked.get(key);
      if (early === undefined || execOptions?.lock !== "driver") return runner.exec(argv, execOptions);
      asked.delete(key);
      return early;
    },
  };
}
