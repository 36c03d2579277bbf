/** What runs on every node: wires looking, joining and the stream, and goes away in order. Used by `llmgw agent` and by `llmgw up`. */

import { discoverHost } from "../discovery/host.ts";
import { chosenOptions } from "../discovery/options.ts";
import type { AgentConfig } from "../domain/agent-config.ts";
import type { Inventory } from "../domain/inventory.ts";
import type { Clock } from "../lib/clock.ts";
import { compact } from "../lib/compact.ts";
import type { Log } from "../lib/log.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import type { Runner } from "../platform/runner.ts";
import { makePrivateFolder, readWholeFile, writeWholeFile } from "../platform/state-files.ts";
import { takeStateLock } from "../platform/state-lock.ts";
import type { Question } from "../protocol/messages.ts";
import { nodeIdOf } from "./config.ts";
import { controlPlaneFacts } from "./control-plane.ts";
import { credentialStore } from "./credential.ts";
import type { ServerPlace } from "./join.ts";
import { cardsFile, readKnownCards, rememberCards } from "./known-cards.ts";
import { createLink, type Link } from "./link.ts";
import { createMembership } from "./membership.ts";
import { type MetricsServer, serveMetrics } from "./metrics.ts";
import { createStreamClient } from "./stream-client.ts";
import { startWatch, type Watch, type WatchPlan } from "./watch.ts";

export interface AgentOptions {
  readonly config: AgentConfig;
  readonly stateDir: string;
  readonly runner: Runner;
  /** Looks at the load with the library kept open. */
  readonly loadRunner?: Runner;
  /** The recorded machine that stands for the hardware. */
  readonly machine?: string | undefined;
  /** Gives the join token when it is needed; wins over the configured token file. */
  readonly token?: (() => Promise<string | undefined>) | undefined;
  /** `off`: none. */
  readonly metricsListen: string;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly chance: () => number;
  readonly random: (bytes: number) => Uint8Array;
  readonly log: Log;
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface RunningAgent {
  readonly nodeId: string;
  readonly watch: Watch;
  readonly link: Link;
  /** Where its metrics are. */
  readonly metricsUrl: string | undefined;
  /** Takes a configuration that has been read again. What needs a new start is told and stays as it was. */
  reload(config: AgentConfig): void;
  stop(): Promise<void>;
}

/**
 * Throws `UserError` for whatever a person must mend before it can run, a join that is refused among it. A server that cannot be reached is
 * none: the node is looked at meanwhile, and joining is tried until it works.
 */
export async function startAgent(options: AgentOptions): Promise<RunningAgent> {
  const { log, stateDir } = options;
  try {
    await makePrivateFolder(stateDir);
  } catch (cause) {
    const fix = "check its rights and the space on its disk, or give another folder with --state DIR";
    throw new UserError({ what: `the state folder ${stateDir} cannot be used`, why: messageOf(cause), fix }, { cause });
  }
  const lock = takeStateLock(stateDir, "agent");
  const undo: (() => void | Promise<void>)[] = [() => lock.release()];
  const takeBack = async (): Promise<void> => {
    for (const step of undo.toReversed()) await step();
  };
  try {
    const running = await start(options, undo);
    return {
      ...running,
      stop: async () => {
        await takeBack();
        log.info("agent stopped", { node: running.nodeId });
      },
    };
  } catch (error) {
    await takeBack().catch(() => undefined);
    throw error;
  }
}

async function start(options: AgentOptions, undo: (() => void | Promise<void>)[]): Promise<Omit<RunningAgent, "stop">> {
  const { clock, log, runner, version } = options;
  let { config } = options;
  const credentials = credentialStore(options.stateDir);
  const known = await credentials.read();
  const { hostname = undefined } = config.hostname === undefined ? await discoverHost(runner) : config;
  const nodeId = nodeIdOf(config, known?.joined === true ? known.node_id : undefined, hostname);
  if (known?.joined === true && known.node_id !== nodeId) {
    throw new UserError({
      what: `this node joined as "${known.node_id}", and is to be called "${nodeId}" now`,
      why: `${options.stateDir}/credential.json holds the credential of "${known.node_id}"`,
      fix: `leave the name as it was; or remove the old node (llmgw ctl nodes remove ${known.node_id}), move that file away, and join with a new token`,
    });
  }
  const server = serverPlace(config, known);
  const membership = createMembership({
    store: credentials,
    known,
    server,
    nodeId,
    token: () => joinToken(options),
    streams: createStreamClient(server),
    random: options.random,
    log,
  });
  await joinUnlessAway(membership, log, server);

  let link: Link | undefined;
  const inventoryFile = rememberedInventory(options);
  const watch = startWatch({
    clock,
    log,
    runner,
    ...(options.loadRunner === undefined ? {} : { loadRunner: options.loadRunner }),
    plan: planOf(config, options),
    // The clock of a recorded machine stands still: what it says of certificates and offsets would be wrong.
    ...(runner.kind === "host" ? { controlPlane: (signal: AbortSignal) => controlPlaneFacts(server, () => clock.nowMs(), signal) } : {}),
    remembered: () => readKnownCards(cardsFile(options.stateDir)),
    onInventory: (inventory) => {
      link?.set("inventory", inventory);
      inventoryFile.remember(inventory);
      inventoryFile.alsoWrite(() => rememberCards(cardsFile(options.stateDir), inventory, new Date(clock.nowMs()), log));
    },
    onLoad: (sample) => link?.setLoad(sample),
    onFindings: (findings) => link?.set("findings", findings),
  });
  undo.push(() => inventoryFile.written());
  undo.push(() => watch.stop());
  const metrics = startMetrics(options, { nodeId, version, watch, link: () => link });
  undo.push(() => metrics?.stop());
  const answerTo = async (question: Question, signal: AbortSignal): Promise<unknown> => {
    switch (question.kind) {
      case "alive":
        return { alive: true };
      case "doctor":
        return watch.doctor(signal);
      case "rotate-credential":
        await membership.replaceCredential(question.credential);
        // After the answer has left: the new credential counts from its first use on.
        clock.after(500, () => link?.reconnect());
        return { taken: true };
      default:
        return question satisfies never;
    }
  };
  const connected = createLink({
    clock,
    chance: options.chance,
    connect: membership.connect,
    log,
    greeting: () => ({
      node_id: nodeId,
      agent_version: version,
      ...compact({ hostname: config.hostname ?? hostname, mgmt_addr: config.mgmt_addr, machine: options.machine }),
    }),
    instance: Buffer.from(options.random(8)).toString("hex"),
    answer: answerTo,
  });
  link = connected;
  undo.push(() => connected.stop());

  log.info("agent ready", { node: nodeId, server: server.url, state: options.stateDir, metrics: metrics?.url });
  return {
    nodeId,
    watch,
    link: connected,
    metricsUrl: metrics?.url,
    reload: (next) => {
      for (const key of fixedKeys(config, next)) log.warn("a change that needs a new start of the agent", { key });
      config = next;
      watch.replan(planOf(next, options));
      log.info("configuration read again", { node: nodeId });
    },
  };
}

/** The server of agent.yaml or of the flags, else the one that the node joined. */
function serverPlace(
  config: AgentConfig,
  known: { readonly server: string; readonly fingerprint?: string | undefined; readonly ca?: string | undefined } | undefined,
): ServerPlace {
  const url = (config.server ?? known?.server)?.replace(/\/+$/, "");
  if (url === undefined) {
    throw new UserError({
      what: "this agent has no server",
      why: "neither --server nor agent.yaml names one, and the node has not joined one before",
      fix: "paste the line that llmgw ctl token create prints, or run all of it on this machine: llmgw up",
    });
  }
  const { protocol, hostname } = new URL(url);
  if (protocol === "http:" && !/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)) {
    throw new UserError({
      what: `${url} is not encrypted`,
      why: "the node's credential would travel in clear; plain http is for loopback only",
      fix: `use ${url.replace(/^http:/, "https:")}`,
    });
  }
  const given = config.tls;
  const sameAsBefore = known?.server === url;
  const fingerprint = given?.fingerprint ?? (sameAsBefore && given?.ca === undefined ? known.fingerprint : undefined);
  const ca = given?.ca ?? (sameAsBefore && given?.fingerprint === undefined ? known.ca : undefined);
  return { url, trust: { fingerprint, ca } };
}

async function joinToken({ token, config }: AgentOptions): Promise<string | undefined> {
  const given = (await token?.())?.trim();
  if (given !== undefined && given !== "") return given;
  if (config.token_file === undefined) return undefined;
  try {
    const text = (await readWholeFile(config.token_file))?.trim();
    return text === "" ? undefined : text;
  } catch (cause) {
    throw new UserError(
      { what: `the join token in ${config.token_file} cannot be read`, why: messageOf(cause), fix: "check its rights" },
      { cause },
    );
  }
}

async function joinUnlessAway(membership: { ensureJoined(): Promise<void> }, log: Log, { url }: ServerPlace): Promise<void> {
  try {
    await membership.ensureJoined();
  } catch (error) {
    if (error instanceof UserError) throw error;
    log.warn("not joined yet: the server cannot be reached, and is asked again", { server: url, problem: messageOf(error) });
  }
}

function planOf(config: AgentConfig, { runner, env }: AgentOptions): WatchPlan {
  // The variables of whoever replays a recorded machine say nothing about it.
  const { options } = chosenOptions(config, {}, runner.home, runner.kind === "host" ? env : {});
  return { config, discover: options };
}

/** Settings that are taken when the agent starts and at no other time. */
const FIXED = ["server", "node_id", "state_dir", "metrics_listen", "tls", "hostname"] as const;

function fixedKeys(before: AgentConfig, after: AgentConfig): readonly string[] {
  return FIXED.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
}

function startMetrics(options: AgentOptions, figures: Parameters<typeof serveMetrics>[1]): MetricsServer | undefined {
  return options.metricsListen === "off" ? undefined : serveMetrics(options.metricsListen, figures);
}

/** The last inventory on disk, for whoever wants to know what this node had before something went missing. One writing at a time. */
function rememberedInventory({ stateDir, log }: AgentOptions) {
  let last: string | undefined;
  let writing: Promise<void> = Promise.resolve();
  return {
    remember: (inventory: Inventory): void => {
      const text = `${JSON.stringify({ version: 1, inventory })}\n`;
      if (text === last) return;
      last = text;
      writing = writing
        .then(() => writeWholeFile(`${stateDir}/inventory.json`, text, { mode: 0o600 }))
        .catch((error: unknown) => log.warn("the inventory could not be written down", { problem: messageOf(error) }));
    },
    /** Does something else in its turn. */
    alsoWrite: (work: () => Promise<void>): void => {
      writing = writing.then(work);
    },
    written: (): Promise<void> => writing,
  };
}
