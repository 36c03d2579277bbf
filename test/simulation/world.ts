/**
 * A server and some agents, faults by a seed, and what must hold: while they last no revision goes backwards and nothing is acknowledged
 * that is not stored; when they are over, the server's view becomes the truth and no node stays away.
 */
import { createLink, type Link } from "../../src/agent/link.ts";
import type { Finding } from "../../src/domain/finding.ts";
import type { Inventory } from "../../src/domain/inventory.ts";
import { nodeState } from "../../src/domain/node.ts";
import { contentHash } from "../../src/lib/content-hash.ts";
import { createLog, type Log } from "../../src/lib/log.ts";
import { PARTS, readServerMessage } from "../../src/protocol/messages.ts";
import { createSessions, type Sessions } from "../../src/server/sessions.ts";
import { createMemoryStore } from "../../src/server/store/memory-store.ts";
import type { SaveReport, Store } from "../../src/server/store/store.ts";
import { createVirtualClock, type VirtualClock } from "../support/virtual-clock.ts";
import { type Chance, chanceOf } from "./chance.ts";
import { Network } from "./network.ts";

export interface WorldOptions {
  readonly seed: number;
  /** Told of everything that happens, for a replay. */
  readonly tell?: (line: string) => void;
  /** A store that is wrong on purpose, to see that it is noticed. */
  readonly spoil?: (store: Store) => Store;
}

export interface Verdict {
  /** What did not hold; empty when all is well. */
  readonly broken: readonly string[];
  /** Messages, restarts and the like, for the run's summary. */
  readonly events: number;
}

interface SimulatedNode {
  readonly nodeId: string;
  link: Link | undefined;
  inventory: Inventory;
  findings: readonly Finding[];
  starts: number;
}

const FAULTY_MS = 240_000;
/** Longest wait of an agent (a refusal that a person should mend, 75 s) and then some: the calm must be long enough to come back in. */
const CALM_MS = 180_000;

/** Plays one seed to its end. Never throws for what the world does; a thrown error is a bug of the code or of the simulation. */
export async function playWorld(options: WorldOptions): Promise<Verdict> {
  const world = new World(options);
  await world.play();
  return { broken: world.broken, events: world.events };
}

class World {
  readonly broken: string[] = [];
  events = 0;
  private readonly chance: Chance;
  private readonly clock: VirtualClock = createVirtualClock();
  private readonly network: Network;
  private readonly store: Store;
  private readonly log: Log;
  private readonly tell: (line: string) => void;
  private readonly nodes: SimulatedNode[] = [];
  private readonly twins: Link[] = [];
  private readonly highest = new Map<string, number>();
  private sessions: Sessions | undefined;
  private listeningSinceMs = 0;
  private servers = 0;

  constructor(options: WorldOptions) {
    this.chance = chanceOf(options.seed);
    this.network = new Network(this.clock, this.chance);
    const startMs = this.clock.nowMs();
    this.tell = (line) => options.tell?.(`${String(this.clock.nowMs() - startMs).padStart(7)} ms  ${line}`);
    this.log = createLog({
      level: options.tell === undefined ? "error" : "debug",
      write: (line) => options.tell?.(line.trimEnd()),
      now: () => new Date(this.clock.nowMs()),
    });
    const memory = createMemoryStore({ clusterId: "simulated" });
    this.store = this.watched(options.spoil?.(memory) ?? memory);
  }

  async play(): Promise<void> {
    const count = 1 + Math.floor(this.chance.between(0, 4));
    for (let at = 0; at < count; at++) await this.addNode(`n${at}`);
    this.startServer();
    await this.storm();
    await this.calm();
    await this.check();
  }

  /** Faults at random moments, and changes of the truth between them. */
  private async storm(): Promise<void> {
    this.network.weather = {
      delayMs: [1, this.chance.pick([5, 50, 2_000])],
      drop: this.chance.pick([0, 0.01, 0.2]),
      double: this.chance.pick([0, 0.01, 0.2]),
      connectFails: this.chance.pick([0, 0.3]),
      connectHangs: this.chance.pick([0, 0.1]),
    };
    for (let spentMs = 0; spentMs < FAULTY_MS; ) {
      const stepMs = this.chance.between(10, this.chance.pick([500, 5_000, 30_000]));
      await this.clock.advance(stepMs);
      spentMs += stepMs;
      await this.fault();
    }
  }

  private async fault(): Promise<void> {
    this.events++;
    const node = this.chance.pick(this.nodes);
    const kind = this.chance.pick(["change", "change", "change", "cut", "agent", "server", "partition", "heal", "twin", "cordon"] as const);
    this.tell(`--- ${kind} ${node.nodeId}`);
    switch (kind) {
      case "change":
        this.change(node);
        return;
      case "cut":
        this.network.cut(node.nodeId);
        return;
      case "agent":
        this.killAgent(node, this.chance.happens(0.5));
        this.clock.after(this.chance.between(0, 20_000), () => this.startAgent(node));
        return;
      case "server":
        this.killServer(this.chance.happens(0.5));
        this.clock.after(this.chance.between(0, 30_000), () => this.startServer());
        return;
      case "partition":
        this.network.partition(node.nodeId, this.chance.pick([ONE_WAY, OTHER_WAY, BOTH_WAYS]));
        return;
      case "heal":
        this.network.partition(node.nodeId, { toServer: false, toAgent: false });
        if (this.chance.happens(0.5)) this.healPartitions();
        return;
      case "twin":
        this.startTwin(node);
        return;
      case "cordon":
        await this.store.setCordon(node.nodeId, { cordoned: this.chance.happens(0.5), draining: false, reason: undefined });
        return;
      default:
        kind satisfies never;
    }
  }

  private healPartitions(): void {
    const { weather } = this.network;
    this.network.heal();
    this.network.weather = weather;
  }

  /** Faults are over: everything runs, twins are stopped, nothing is lost any more. */
  private async calm(): Promise<void> {
    this.tell("--- calm");
    this.network.heal();
    for (const twin of this.twins) await twin.stop();
    if (this.sessions === undefined) this.startServer();
    for (const node of this.nodes) if (node.link === undefined) this.startAgent(node);
    await this.clock.advance(CALM_MS);
  }

  private async check(): Promise<void> {
    for (const node of this.nodes) {
      const row = await this.store.node(node.nodeId);
      const live = this.sessions?.live(node.nodeId);
      if (live === undefined) this.fail(`${node.nodeId} is not connected after the calm: ${JSON.stringify(node.link?.state())}`);
      const lastSeenMs = this.sessions?.lastSeenMs(node.nodeId);
      const signs = { connected: live !== undefined, lastSeenMs, joinedMs: row?.joined_ms ?? 0, cordoned: false, draining: false };
      const state = nodeState(signs, this.clock.nowMs(), this.listeningSinceMs);
      if (state !== "ready") this.fail(`${node.nodeId} is ${state} after the calm`);
      for (const part of PARTS) {
        const report = await this.store.report(node.nodeId, part);
        const truth = JSON.stringify(part === "inventory" ? node.inventory : node.findings);
        if (report?.body !== truth) this.fail(`${part} of ${node.nodeId} is not the truth: revision ${report?.stored.revision ?? "-"}`);
      }
    }
    const connected = [...(this.sessions?.connected().keys() ?? [])];
    if (new Set(connected).size !== connected.length) this.fail("a node is connected twice");
  }

  private fail(what: string): void {
    this.broken.push(what);
    this.tell(`BROKEN: ${what}`);
  }

  /** The store, with every report compared with what was there before. */
  private watched(store: Store): Store {
    const saveReport = async (nodeId: string, report: SaveReport) => {
      const outcome = await store.saveReport(nodeId, report);
      const key = `${nodeId} ${report.part}`;
      const after = (await store.report(nodeId, report.part))?.stored.revision ?? 0;
      const before = this.highest.get(key) ?? 0;
      if (after < before) this.fail(`${key} went back from revision ${before} to ${after}`);
      this.highest.set(key, Math.max(before, after));
      return outcome;
    };
    return new Proxy(store, {
      get: (target, name) => {
        if (name === "saveReport") return saveReport;
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }

  /** What an acknowledgement says must be in the store at that moment. */
  private async compareAck(nodeId: string, text: string): Promise<void> {
    const read = readServerMessage(text);
    if (read.kind !== "message" || (read.message.kind !== "ack" && read.message.kind !== "welcome")) return;
    for (const part of PARTS) {
      const said = read.message.have[part];
      if (said === undefined) continue;
      const report = await this.store.report(nodeId, part);
      if (report === undefined || report.stored.revision < said.revision)
        this.fail(`${part} ${said.revision} of ${nodeId} was acknowledged and is not stored`);
      else if (report.stored.revision === said.revision && contentHash(report.body) !== said.hash)
        this.fail(`${part} ${said.revision} of ${nodeId} is not what was acknowledged`);
    }
  }

  private async addNode(nodeId: string): Promise<void> {
    await this.store.addToken(
      { token_id: nodeId, created_ms: 0, expires_ms: Number.MAX_SAFE_INTEGER, uses_left: 1, created_by: "simulation" },
      contentHash(`token ${nodeId}`),
    );
    const token = contentHash(`token ${nodeId}`);
    await this.store.join({ token, node_id: nodeId, credential: contentHash(nodeId), nowMs: this.clock.nowMs(), takeover: false });
    const node: SimulatedNode = { nodeId, link: undefined, inventory: inventoryOf(nodeId, 0), findings: [], starts: 0 };
    this.nodes.push(node);
    this.startAgent(node);
  }

  private change(node: SimulatedNode): void {
    const version = Math.floor(this.chance.between(0, 5));
    if (this.chance.happens(0.5)) node.inventory = inventoryOf(node.nodeId, version);
    else node.findings = version === 0 ? [] : [findingOf(version)];
    node.link?.set("inventory", node.inventory);
    node.link?.set("findings", node.findings);
  }

  private startAgent(node: SimulatedNode): void {
    if (node.link !== undefined) return;
    this.tell(`agent ${node.nodeId} starts`);
    node.link = this.linkOf(node.nodeId, `${node.nodeId}-${node.starts++}`);
    node.link.set("inventory", node.inventory);
    node.link.set("findings", node.findings);
  }

  /** Killed: its code does not run on, so its link must be out of the way without a word. */
  private killAgent(node: SimulatedNode, told: boolean): void {
    this.tell(`agent ${node.nodeId} dies${told ? "" : " without its connections being closed"}`);
    this.network.agentDies(node.nodeId, told);
    void node.link?.stop();
    node.link = undefined;
  }

  /** Another machine with a copy of this node's state. It never says anything but that it is there. */
  private startTwin(node: SimulatedNode): void {
    if (this.twins.length >= 3) return;
    const twin = this.linkOf(node.nodeId, `twin-${this.twins.length}`);
    this.twins.push(twin);
    this.clock.after(this.chance.between(1_000, 60_000), () => void twin.stop());
  }

  private linkOf(nodeId: string, instance: string): Link {
    return createLink({
      clock: this.clock,
      chance: () => this.chance.next(),
      connect: this.network.connectorOf(nodeId),
      log: this.log,
      greeting: () => ({ node_id: nodeId, agent_version: "0.0.0" }),
      instance,
      answer: async () => ({}),
    });
  }

  private startServer(): void {
    if (this.sessions !== undefined) return;
    this.tell("server starts");
    const sessions = createSessions({
      clock: this.clock,
      store: this.store,
      log: this.log,
      version: "0.0.0",
      instance: `s${this.servers++}`,
    });
    this.sessions = sessions;
    this.listeningSinceMs = this.clock.nowMs();
    this.network.listen((connection, nodeId) =>
      sessions.accept(
        {
          ...connection,
          send: (text) => {
            this.events++;
            void this.compareAck(nodeId, text);
            connection.send(text);
          },
        },
        nodeId,
        "simulated",
      ),
    );
  }

  private killServer(told: boolean): void {
    if (this.sessions === undefined) return;
    this.tell(`server dies${told ? "" : " without its connections being closed"}`);
    this.network.serverDies(told);
    // Its code runs no further; what waited for the store is gone with it.
    void this.sessions.stop();
    this.sessions = undefined;
  }
}

const ONE_WAY = { toServer: true, toAgent: false };
const OTHER_WAY = { toServer: false, toAgent: true };
const BOTH_WAYS = { toServer: true, toAgent: true };

function inventoryOf(nodeId: string, version: number): Inventory {
  return {
    source: "none",
    hostname: nodeId,
    gpus: [],
    unusable_cards: [],
    hcas: [],
    weights: [],
    storage: [],
    warnings: [`version ${version}`],
  };
}

function findingOf(version: number): Finding {
  return {
    id: "simulated",
    group: "host",
    severity: "advise",
    result: "problem",
    subject: { kind: "node" },
    message: `version ${version}`,
    evidence: [],
    fix: [],
    ms: 0,
  };
}
