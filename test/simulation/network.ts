/**
 * A network that misbehaves: messages are late, lost, doubled, overtaken; connections are cut with and without anyone being told; a node
 * can be cut off in either direction. Worse than TCP, which loses nothing within a connection: what holds here holds there.
 */
import type { Clock } from "../../src/lib/clock.ts";
import type { Connect, Connection, ConnectionEvents } from "../../src/protocol/connection.ts";
import type { Chance } from "./chance.ts";

export interface Weather {
  readonly delayMs: readonly [low: number, high: number];
  /** Probabilities for one message. */
  readonly drop: number;
  readonly double: number;
  /** Probability that a try to connect fails. */
  readonly connectFails: number;
  /** Probability that a try to connect hangs until it is given up. */
  readonly connectHangs: number;
}

export const CALM: Weather = { delayMs: [1, 20], drop: 0, double: 0, connectFails: 0, connectHangs: 0 };

export type Accept = (connection: Connection, nodeId: string) => ConnectionEvents;

interface Wire {
  readonly nodeId: string;
  readonly generation: number;
  readonly toAgent: ConnectionEvents;
  toServer: ConnectionEvents | undefined;
  openForAgent: boolean;
  openForServer: boolean;
}

export class Network {
  weather: Weather = CALM;
  private readonly clock: Clock;
  private readonly chance: Chance;
  private readonly wires = new Set<Wire>();
  /** Nodes whose messages vanish on the way to the server, or from it. */
  private readonly deafServer = new Set<string>();
  private readonly deafAgent = new Set<string>();
  private server: { readonly accept: Accept; readonly generation: number } | undefined;
  private generation = 0;

  constructor(clock: Clock, chance: Chance) {
    this.clock = clock;
    this.chance = chance;
  }

  /** A server listens from now on. */
  listen(accept: Accept): void {
    this.server = { accept, generation: ++this.generation };
  }

  /** The server's process is gone. `told`: its kernel closes the connections; else the machine lost its power and nobody is told. */
  serverDies(told: boolean): void {
    this.server = undefined;
    for (const wire of [...this.wires]) {
      wire.openForServer = false;
      if (told) this.closeAgentSide(wire, 1006, "");
    }
  }

  /** Likewise for all connections of one node. */
  agentDies(nodeId: string, told: boolean): void {
    for (const wire of this.wiresOf(nodeId)) {
      wire.openForAgent = false;
      if (told) this.closeServerSide(wire, 1006, "");
    }
  }

  /** Cuts a node's connections with both sides being told. */
  cut(nodeId: string): void {
    for (const wire of this.wiresOf(nodeId)) {
      this.closeAgentSide(wire, 1006, "");
      this.closeServerSide(wire, 1006, "");
    }
  }

  /** From now on, nothing of this node arrives in the given directions, and nobody is told. */
  partition(nodeId: string, directions: { readonly toServer: boolean; readonly toAgent: boolean }): void {
    if (directions.toServer) this.deafServer.add(nodeId);
    if (directions.toAgent) this.deafAgent.add(nodeId);
  }

  heal(): void {
    this.weather = CALM;
    this.deafServer.clear();
    this.deafAgent.clear();
  }

  connectorOf(nodeId: string): Connect {
    return async (events, signal) => {
      await this.wait(this.delay(), signal);
      const { server } = this;
      if (this.chance.happens(this.weather.connectHangs) || this.deafServer.has(nodeId) || this.deafAgent.has(nodeId)) {
        await this.wait(Number.MAX_SAFE_INTEGER, signal);
      }
      if (signal.aborted) throw new Error("given up");
      if (server === undefined || this.chance.happens(this.weather.connectFails)) throw new Error("connection refused");
      return this.establish(nodeId, events, server);
    };
  }

  private establish(nodeId: string, events: ConnectionEvents, server: NonNullable<Network["server"]>): Connection {
    const wire: Wire = {
      nodeId,
      generation: server.generation,
      toAgent: events,
      toServer: undefined,
      openForAgent: true,
      openForServer: true,
    };
    this.wires.add(wire);
    wire.toServer = server.accept(
      {
        send: (text) => this.carry(() => this.arriveAtAgent(wire, text), !wire.openForServer || this.deafAgent.has(nodeId)),
        bufferedBytes: () => 0,
        close: (code, reason) => {
          if (!wire.openForServer) return;
          wire.openForServer = false;
          this.carry(() => this.closeAgentSide(wire, code, reason), this.deafAgent.has(nodeId));
          this.clock.after(0, () => wire.toServer?.closed(code, reason));
        },
      },
      nodeId,
    );
    return {
      send: (text) => this.carry(() => this.arriveAtServer(wire, text), !wire.openForAgent || this.deafServer.has(nodeId)),
      bufferedBytes: () => 0,
      close: (code, reason) => {
        if (!wire.openForAgent) return;
        wire.openForAgent = false;
        this.carry(() => this.closeServerSide(wire, code, reason), this.deafServer.has(nodeId));
        this.clock.after(0, () => wire.toAgent.closed(code, reason));
      },
    };
  }

  /** One message on its way: lost, late, or twice. */
  private carry(arrive: () => void, vanishes: boolean): void {
    if (vanishes || this.chance.happens(this.weather.drop)) return;
    this.clock.after(this.delay(), arrive);
    if (this.chance.happens(this.weather.double)) this.clock.after(this.delay(), arrive);
  }

  private arriveAtAgent(wire: Wire, text: string): void {
    if (wire.openForAgent && !this.deafAgent.has(wire.nodeId)) wire.toAgent.message(text);
  }

  private arriveAtServer(wire: Wire, text: string): void {
    if (wire.openForServer && !this.deafServer.has(wire.nodeId)) wire.toServer?.message(text);
  }

  private closeAgentSide(wire: Wire, code: number, reason: string): void {
    if (!wire.openForAgent) return;
    wire.openForAgent = false;
    wire.toAgent.closed(code, reason);
    this.forget(wire);
  }

  private closeServerSide(wire: Wire, code: number, reason: string): void {
    if (!wire.openForServer) return;
    wire.openForServer = false;
    wire.toServer?.closed(code, reason);
    this.forget(wire);
  }

  private forget(wire: Wire): void {
    if (!wire.openForAgent && !wire.openForServer) this.wires.delete(wire);
  }

  private wiresOf(nodeId: string): readonly Wire[] {
    return [...this.wires].filter((wire) => wire.nodeId === nodeId);
  }

  private delay(): number {
    const [low, high] = this.weather.delayMs;
    // Mostly quick, now and then very late, as networks are.
    return this.chance.happens(0.02) ? this.chance.between(high, 10 * high) : this.chance.between(low, high);
  }

  private wait(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      else if (ms < Number.MAX_SAFE_INTEGER) this.clock.after(ms, resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}
