/**
 * Looks at the node again and again: at the load every few seconds, at everything else every five minutes, and at once when the look at the
 * load shows that devices or ports have changed, or when a problem was seen for the first time. One look at a time, each whole; what a look
 * could not find out is in the report that it makes, and one that fails altogether is told and tried again.
 */
import { type DiscoverOptions, type Discovery, discoverWithSources, IB_ROOT } from "../discovery/discover.ts";
import { discoverLoad } from "../discovery/load.ts";
import { runChecks } from "../doctor/check.ts";
import { CHECKS } from "../doctor/checks.ts";
import { type CollectOptions, collectBeside, collectFacts } from "../doctor/collect.ts";
import { activeFindings, DEBOUNCE, type DebounceState, debounce } from "../doctor/debounce.ts";
import type { ControlPlaneFacts, Facts } from "../doctor/facts.ts";
import { type AgentConfig, waiversOf } from "../domain/agent-config.ts";
import { type DoctorReport, type Finding, reportOf } from "../domain/finding.ts";
import type { Inventory } from "../domain/inventory.ts";
import { type LoadSample, lastingPart } from "../domain/load-sample.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { messageOf } from "../lib/user-error.ts";
import { collectGarbage, cpuSeconds } from "../platform/own-process.ts";
import { type Runner, RunnerError, readText } from "../platform/runner.ts";

/** How discovery looks, as agent.yaml says at this moment. */
export interface WatchPlan {
  readonly config: AgentConfig;
  readonly discover: DiscoverOptions;
}

export interface WatchOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly runner: Runner;
  /** Looks at the load; the same unless the library is kept open for it. */
  readonly loadRunner?: Runner;
  readonly plan: WatchPlan;
  /** The way to the control plane, once the node has joined one. */
  readonly controlPlane?: (signal: AbortSignal) => Promise<ControlPlaneFacts | undefined>;
  /** Cards that were here before. */
  readonly remembered?: () => Promise<Facts["remembered"]>;
  /** Without what changes from moment to moment. */
  readonly onInventory: (inventory: Inventory) => void;
  readonly onLoad: (sample: LoadSample) => void;
  readonly onFindings: (findings: readonly Finding[]) => void;
  readonly loadEveryMs?: number;
  readonly everyMs?: number;
}

export interface Watch {
  inventory(): Inventory | undefined;
  load(): LoadSample | undefined;
  /** Problems that count, waived ones, and what could not be found out. */
  findings(): readonly Finding[];
  /** Everything that doctor finds now, without waiting for its turn. */
  doctor(signal: AbortSignal): Promise<DoctorReport>;
  /** From now on looks so, beginning at once. */
  replan(plan: WatchPlan): void;
  /** Resolves when the look under way has ended. */
  stop(): Promise<void>;
}

/** nvidia-smi takes a second or more of the host for each call: where only it answers, the load is looked at less often. */
const LOAD_EVERY_MS = { library: 15_000, text: 60_000 };
const EVERY_MS = 300_000;
/** A problem that was seen once is looked at again so soon: it counts when it is seen twice. */
const AGAIN_MS = 20_000;

export function startWatch(options: WatchOptions): Watch {
  const watch = new NodeWatch(options);
  watch.wake();
  return watch;
}

class NodeWatch implements Watch {
  private readonly options: WatchOptions;
  private readonly abort = new AbortController();
  private plan: WatchPlan;
  private tracked: DebounceState = new Map();
  private judged = false;
  private seen: { inventory?: Inventory; load?: LoadSample; findings: readonly Finding[] } = { findings: [] };
  private nextLoadMs = 0;
  private nextMs = 0;
  private timer: Cancel = () => undefined;
  private working: Promise<void> | undefined;
  /** What the look at the inventory found, for the look at health that follows it. */
  private shared: Discovery | undefined;
  /** Devices of a load that differed from the inventory and have been looked into. */
  private changed: string | undefined;
  /** What failed last, by look: told on change. */
  private readonly failing = new Map<string, string>();

  constructor(options: WatchOptions) {
    this.options = options;
    this.plan = options.plan;
  }

  inventory(): Inventory | undefined {
    return this.seen.inventory;
  }

  load(): LoadSample | undefined {
    return this.seen.load;
  }

  findings(): readonly Finding[] {
    return this.seen.findings;
  }

  async doctor(signal: AbortSignal): Promise<DoctorReport> {
    return reportOf(await this.judge(AbortSignal.any([signal, this.abort.signal])));
  }

  replan(plan: WatchPlan): void {
    this.plan = plan;
    this.nextMs = 0;
    this.wake();
  }

  async stop(): Promise<void> {
    this.timer();
    this.abort.abort();
    await this.working;
  }

  /** Does what is due, then sleeps until the next is. */
  wake(): void {
    if (this.working !== undefined || this.abort.signal.aborted) return;
    this.timer();
    this.working = this.work().finally(() => {
      this.working = undefined;
      if (this.abort.signal.aborted) return;
      const waitMs = Math.max(0, Math.min(this.nextLoadMs, this.nextMs) - this.options.clock.nowMs());
      this.timer = this.options.clock.after(waitMs, () => this.wake());
    });
  }

  private async work(): Promise<void> {
    const { clock } = this.options;
    if (clock.nowMs() >= this.nextMs) {
      this.nextMs = clock.nowMs() + (this.options.everyMs ?? EVERY_MS);
      this.shared = undefined;
      await this.look("inventory", () => this.lookAtInventory());
      await this.look("doctor", () => this.lookAtHealth());
      // Most of what such a look makes is thrown away: at once, or it stays in the way until the runtime gets to it.
      collectGarbage();
      if (this.unsettled()) this.nextMs = Math.min(this.nextMs, clock.nowMs() + AGAIN_MS);
    }
    if (clock.nowMs() >= this.nextLoadMs) {
      this.nextLoadMs = clock.nowMs() + (this.options.loadEveryMs ?? (this.hasLibrary() ? LOAD_EVERY_MS.library : LOAD_EVERY_MS.text));
      await this.look("load", () => this.lookAtLoad());
    }
  }

  private hasLibrary(): boolean {
    return this.seen.inventory?.source === "nvml";
  }

  /** Whether some problem was seen, or missed, and does not count so yet. */
  private unsettled(): boolean {
    return [...this.tracked.values()].some((one) => !one.active || one.missed > 0);
  }

  private async look(what: string, run: () => Promise<void>): Promise<void> {
    const { log } = this.options;
    if (this.abort.signal.aborted) return;
    const [fromMs, cpuBefore] = [performance.now(), cpuSeconds()];
    try {
      await run();
      const cpu_ms = Math.round((cpuSeconds() - cpuBefore) * 1000);
      log.debug("looked", { what, took_ms: Math.round(performance.now() - fromMs), cpu_ms });
      if (this.failing.delete(what)) log.info("looking works again", { what });
    } catch (error) {
      if (this.abort.signal.aborted || (error instanceof RunnerError && error.kind === "aborted")) return;
      const problem = messageOf(error);
      if (this.failing.get(what) !== problem) log.error("looking failed", { what, problem });
      this.failing.set(what, problem);
    }
  }

  private async lookAtInventory(): Promise<void> {
    const { runner, onInventory } = this.options;
    const found = await discoverWithSources(runner, { ...this.plan.discover, signal: this.abort.signal });
    const { inventory } = found;
    // Doctor judges nvidia-smi itself, so what came through the library is not enough for it.
    if (inventory.source !== "nvml") this.shared = found;
    this.seen = { ...this.seen, inventory };
    onInventory(lastingPart(inventory));
  }

  private async lookAtLoad(): Promise<void> {
    const { clock, runner, loadRunner, onLoad } = this.options;
    const at = new Date(clock.nowMs()).toISOString();
    // Without a card there is nothing to ask, and nothing to start a program for.
    const none = this.seen.inventory?.source === "none";
    const options = { ...this.plan.discover, signal: this.abort.signal };
    const load = none ? { at, devices: [] } : await discoverLoad(loadRunner ?? runner, options, at);
    this.seen = { ...this.seen, load };
    onLoad(load);
    const before = placesOf(this.seen.inventory, undefined);
    const now = placesOf(this.seen.inventory && { ...this.seen.inventory, gpus: load.devices }, await this.portStates());
    // Each difference is looked into once: what the look finds is the truth, also where the two ways of looking never agree.
    if (before === undefined || now === before || now === this.changed) return;
    this.changed = now;
    this.nextMs = clock.nowMs();
  }

  /** What the ports of the known adapters say now, as text, in the order of the inventory; one that cannot be read says nothing. */
  private async portStates(): Promise<readonly (string | undefined)[]> {
    const { runner } = this.options;
    const root = this.plan.discover.ibRoot ?? IB_ROOT;
    const files = (this.seen.inventory?.hcas ?? []).flatMap((hca) =>
      hca.ports.map((port) => `${root}/${hca.name}/ports/${port.num}/state`),
    );
    const read = (file: string) => readText(runner, file, { timeoutMs: 2_000 }).catch(() => undefined);
    return (await Promise.all(files.map(read))).map((text) => text?.replace(/^\d+: */, ""));
  }

  private async lookAtHealth(): Promise<void> {
    const { clock, onFindings } = this.options;
    const found = await this.judge(this.abort.signal, this.shared);
    // At the first look nothing runs here that a flicker could move: what it shows counts.
    const options = this.judged ? DEBOUNCE : { ...DEBOUNCE, runs: 1 };
    this.judged = true;
    this.tracked = debounce(this.tracked, found, new Date(clock.nowMs()).toISOString(), options);
    // Time and ok findings change nothing for anyone: an unchanged node sends nothing.
    const beside = found.filter((finding) => finding.result === "waived" || finding.result === "unknown");
    const findings = [...activeFindings(this.tracked), ...beside].map((finding) => ({ ...finding, ms: 0 }));
    this.seen = { ...this.seen, findings };
    onFindings(findings);
  }

  private async judge(signal: AbortSignal, shared?: Discovery): Promise<readonly Finding[]> {
    const { runner } = this.options;
    const { config, discover: plan } = this.plan;
    const collect: CollectOptions = { discover: { ...plan, signal }, config, warnings: [] };
    const [facts, controlPlane, remembered] = await Promise.all([
      shared === undefined ? collectFacts(runner, collect) : collectBeside(runner, collect, Promise.resolve(shared)),
      this.options.controlPlane?.(signal),
      this.options.remembered?.(),
    ]);
    return runChecks(CHECKS, { ...facts, controlPlane, remembered }, { waivers: waiversOf(config) });
  }
}

/** Devices and port states as one text; of the inventory itself unless other states are given. */
function placesOf(
  inventory: { readonly gpus: readonly { readonly uuid: string }[]; readonly hcas: Inventory["hcas"] } | undefined,
  states: readonly (string | undefined)[] | undefined,
): string | undefined {
  if (inventory === undefined) return undefined;
  const ports = states ?? inventory.hcas.flatMap((hca) => hca.ports.map((port) => port.state));
  return [...inventory.gpus.map((gpu) => gpu.uuid).toSorted(), ...ports.map((state) => state ?? "-")].join();
}
