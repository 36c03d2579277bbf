/** Who holds a card: programs that are no engine, and memory that nobody holds. */
import type { RawCard, RawProcess } from "../discovery/nvidia-smi/query.ts";
import { printable } from "../lib/printable.ts";
import { type CardFacts, nameOf, perCard, subjectOf } from "./cards.ts";
import type { Verdict } from "./check.ts";
import type { Facts } from "./facts.ts";
import { drainAndReset, evidence, fix, ok, skipped, unknown } from "./verdict.ts";

/** Words in the command line of an engine or of its workers. */
const ENGINE =
  /\b(vllm|sglang|llama-server|llama\.cpp|llama_cpp|text-generation-launcher|tritonserver|trtllm|ollama|llmgw|EngineCore|ray::)/i;
/** A name that says nothing about what runs: with its command line hidden it may well be an engine. */
const INTERPRETER = /^(?:\S*\/)?(?:python[\d.]*|node|bun|java|\[Not Found\]|-)?$/i;

export function judgeForeign(facts: Facts): readonly Verdict[] {
  return perCard(facts, (card, raw) => {
    if (card.leftAlone) return skipped(`${nameOf(card)} is left alone: agent.yaml lists it under discovery.skip_gpus`);
    if (raw.processes === undefined) return unknown(`${nameOf(card)}: the driver does not list its processes`);
    const others = raw.processes.filter((process) => !/G/.test(process.type ?? "") && !ENGINE.test(wordsOf(facts, process)));
    const [hidden, foreign] = [others.filter((one) => isHidden(facts, one)), others.filter((one) => !isHidden(facts, one))];
    if (foreign.length > 0) return foreign.map((process) => foreignVerdict(facts, card, process));
    const [first] = hidden;
    if (first !== undefined)
      return unknown(`${nameOf(card)}: pid ${first.pid} (${first.name ?? "-"}) cannot be looked at: it may be an engine`);
    return ok("only engines, or nobody");
  });
}

function foreignVerdict(facts: Facts, card: CardFacts, process: RawProcess): Verdict {
  const memory = process.memoryMb === undefined ? "memory" : `${process.memoryMb} MiB`;
  const name = printable(wordsOf(facts, process)).slice(0, 80);
  return {
    result: "problem",
    subject: subjectOf(card),
    message: `${nameOf(card)}: ${name} (pid ${process.pid}) holds ${memory}`,
    evidence: [evidence("nvidia-smi processes", `pid ${process.pid}, ${process.name ?? "-"}, ${memory}`, "engines only")],
    fix: [
      fix("ask its owner to end it", `ps -o user,lstart,cmd -p ${process.pid}`, [], true),
      fix(`or leave the card to it: add "${card.index ?? card.uuid ?? "-"}" to discovery.skip_gpus in agent.yaml`, undefined, [], true),
    ],
  };
}

/** The command line where it can be read, else the name that the driver prints. */
function wordsOf(facts: Facts, process: RawProcess): string {
  return facts.processes.find((one) => one.pid === process.pid)?.command ?? process.name ?? "";
}

function isHidden(facts: Facts, process: RawProcess): boolean {
  return INTERPRETER.test(wordsOf(facts, process).trim());
}

/** What a driver keeps for itself on an idle card, MiB. Drivers before 510 count the reserved part as used, and it is near this. */
const UNEXPLAINED_MB = 600;

export function judgeOrphaned(facts: Facts): readonly Verdict[] {
  return perCard(facts, (card, raw) => orphaned(facts, card, raw));
}

function orphaned(facts: Facts, card: CardFacts, raw: RawCard): Verdict {
  const { memoryUsedMb: used, processes, utilizationPct } = raw;
  if (used === undefined || processes === undefined) return unknown(`${nameOf(card)}: memory or processes are not shown`);
  const byNobody = used - processes.reduce((sum, process) => sum + (process.memoryMb ?? 0), 0);
  if (byNobody < UNEXPLAINED_MB) return ok("all memory in use is accounted for");
  if (facts.container) return unknown(`${nameOf(card)}: ${used} MiB are in use; from a container other processes are not visible`);
  if (processes.some((process) => process.memoryMb === undefined)) return unknown(`${nameOf(card)}: a process does not show its memory`);
  if ((utilizationPct ?? 0) > 0) return skipped(`${nameOf(card)} is at work`);
  const dead = facts.processes.filter((one) => processes.some((process) => process.pid === one.pid) && /[ZXD]/.test(one.state ?? ""));
  return {
    result: "problem",
    message: `${nameOf(card)}: ${byNobody} MiB held by nobody visible`,
    evidence: [
      evidence("nvidia-smi fb_memory_usage.used", `${used} MiB`, `under ${UNEXPLAINED_MB} MiB beyond its processes`),
      ...dead.map((one) => evidence(`/proc/${one.pid}/stat`, one.state ?? "-")),
    ],
    fix: [
      fix(
        "look for a left-over worker that still has the card open, and end it",
        `fuser -v /dev/nvidia${card.minor ?? "*"}`,
        ["root"],
        true,
      ),
      drainAndReset(facts, card.index === undefined ? (card.busId ?? "?") : String(card.index)),
    ],
  };
}
