/** Checks on engines. Until engines are configured and an agent runs here they are skipped, with that reason. */
import type { Check, Verdict } from "./check.ts";
import type { ConfiguredEngine, Facts } from "./facts.ts";
import { count, evidence, fix, ok, skipped, unknown } from "./verdict.ts";

export const engineChecks: readonly Check[] = [
  {
    id: "engine-missing",
    group: "engine",
    severity: "block",
    depends_on: [],
    title: "every configured engine is installed in a version that llmgw knows",
    explain:
      "Models name the engine that serves them. When its program or image is not on this node, or its version is one that llmgw cannot talk to, those models cannot run here. Read from the configured engines.",
    judge: (facts) => perEngine(facts, judgeMissing),
  },
  {
    id: "engine-cuda",
    group: "engine",
    severity: "block",
    depends_on: ["engine-missing", "driver-loaded", "driver-library-mismatch", "driver-query-hung"],
    title: "the driver is new enough for the engine's CUDA",
    explain:
      "An engine is built for one CUDA version. A driver runs programs of its own and of older CUDA versions, within one major version also slightly newer ones; beyond that they stop with error 803 or 804. Read from the engine's build and from the CUDA version that nvidia-smi names.",
    judge: (facts) => perEngine(facts, (engine) => judgeCuda(facts, engine)),
  },
  {
    id: "engine-mig",
    group: "engine",
    severity: "block",
    depends_on: ["engine-missing"],
    title: "the engine can be pointed at a MIG instance",
    explain:
      "Instances are named by UUID. Engines that turn the name into a number crash on it, with a message that speaks of something else; and an engine built on Vulkan sees no instance of a data-centre card. Judged where a card has instances. Read from the engine's version.",
    judge: (facts) => perEngine(facts, (engine) => judgeMig(facts, engine)),
  },
  {
    id: "engine-orphan",
    group: "engine",
    severity: "degrade",
    depends_on: [],
    title: "every engine process has an agent that owns it",
    explain:
      "Engines go on serving while the agent restarts, and the agent adopts those it finds. One that nobody adopts holds memory and a port, and nothing supervises it. Read from the processes that carry llmgw's mark.",
    judge: judgeOrphans,
  },
];

function perEngine(facts: Facts, judge: (engine: ConfiguredEngine) => Verdict): readonly Verdict[] {
  if (facts.engines === undefined) return [skipped("no engines are configured here yet")];
  if (facts.engines.length === 0) return [skipped("no engines are configured here")];
  return facts.engines.map((engine) => ({ subject: { kind: "engine" as const, name: engine.name }, ...judge(engine) }));
}

function judgeMissing(engine: ConfiguredEngine): Verdict {
  const needed = engine.models.length === 0 ? "no model yet" : engine.models.join(", ");
  if (engine.found?.supported === true) return ok(`${engine.name} ${engine.found.version}`);
  return {
    result: "problem",
    message: `${engine.name} ${engine.wanted} is needed by ${needed}; found ${engine.found?.version ?? "nothing"}`,
    evidence: [evidence(engine.program, engine.found?.version ?? "not found", engine.wanted)],
    fix: [fix(`install ${engine.name} ${engine.wanted} where agent.yaml points at: ${engine.program}`, undefined, [], true)],
  };
}

/** Major and minor as numbers; `undefined` for what is no version. */
function parseCuda(text: string | undefined): readonly [number, number] | undefined {
  const found = /^(\d{1,2})\.(\d{1,2})/.exec(text ?? "");
  return found === null ? undefined : [Number(found[1]), Number(found[2])];
}

/** Within one major version an older driver runs newer minor versions (NVIDIA's minor version compatibility, CUDA 11 and later). */
function judgeCuda(facts: Facts, engine: ConfiguredEngine): Verdict {
  if (engine.cuda_version === undefined) return skipped(`${engine.name} is not built for CUDA, or does not say`);
  const [built, offered] = [parseCuda(engine.cuda_version), parseCuda(facts.inventory.cuda_version)];
  if (built === undefined || offered === undefined) return unknown(`${engine.name}: the CUDA version of engine or driver is not known`);
  if (built[0] < offered[0] || (built[0] === offered[0] && (built[1] <= offered[1] || built[0] >= 11))) {
    return ok(`${engine.name}: CUDA ${engine.cuda_version} under a driver for ${facts.inventory.cuda_version}`);
  }
  const driver = facts.inventory.driver_version ?? "-";
  return {
    result: "problem",
    message: `${engine.name} needs CUDA ${engine.cuda_version}; driver ${driver} offers ${facts.inventory.cuda_version} (errors 803 and 804 follow)`,
    evidence: [evidence("nvidia-smi cuda_version", facts.inventory.cuda_version ?? "-", `${engine.cuda_version} or newer`)],
    fix: [fix("install a newer driver, or the engine's build for this one", undefined, ["root", "reboot"])],
  };
}

function judgeMig(facts: Facts, engine: ConfiguredEngine): Verdict {
  if (!facts.inventory.gpus.some((gpu) => gpu.mig !== undefined)) return skipped("no card has MIG instances");
  if (engine.takes_instances === undefined) return unknown(`whether ${engine.name} can be pointed at an instance is not known`);
  if (engine.takes_instances) return ok(`${engine.name} takes instances`);
  return {
    result: "problem",
    message: `${engine.name} ${engine.found?.version ?? ""} cannot be pointed at a MIG instance`,
    evidence: [evidence(engine.program, engine.found?.version ?? "-", "a version that takes the UUID of an instance")],
    fix: [fix("upgrade it, or run it in a container, where the instance is its only device", undefined, [], true)],
  };
}

function judgeOrphans(facts: Facts): readonly Verdict[] {
  if (facts.markedProcesses === undefined) return [skipped("no agent runs here yet")];
  const orphans = facts.markedProcesses.filter((process) => !process.owned);
  if (orphans.length === 0) return [ok(`${count(facts.markedProcesses.length, "engine process", "engine processes")}, all owned`)];
  return orphans.map((process) => {
    const held = [
      process.memory_mb === undefined ? undefined : `${process.memory_mb} MiB`,
      process.port === undefined ? undefined : `port ${process.port}`,
    ].filter((one) => one !== undefined);
    return {
      result: "problem" as const,
      subject: { kind: "engine" as const, name: `${process.engine} pid ${process.pid}` },
      message: `left-over ${process.engine} pid ${process.pid}${held.length === 0 ? "" : ` holds ${held.join(" and ")}`}`,
      evidence: [evidence(`/proc/${process.pid}/environ`, "llmgw's mark, no owner", "owned by the agent")],
      fix: [
        fix("start the agent: it adopts what it finds", "systemctl start llmgw-agent", ["root"], true),
        fix("or end the process", `kill ${process.pid}`, ["root"]),
      ],
    };
  });
}
