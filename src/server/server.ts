/**
 * The control plane: opens what it needs in order, listens, and goes away in the opposite order. `startServer` is used by `llmgw server`
 * and by `llmgw up`.
 */
import { isLoopback } from "../domain/listen-address.ts";
import { ADMIN_TOKEN_FILE, LOCAL_SERVER_FILE, type LocalServer } from "../domain/local-server.ts";
import type { Clock } from "../lib/clock.ts";
import { compact } from "../lib/compact.ts";
import type { Log } from "../lib/log.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { addressesOf, hostName } from "../platform/own-names.ts";
import { makePrivateFolder, takeFile, writeWholeFile } from "../platform/state-files.ts";
import { takeStateLock } from "../platform/state-lock.ts";
import type { Connection, ConnectionEvents } from "../protocol/connection.ts";
import { MAX_MESSAGE_BYTES } from "../protocol/messages.ts";
import { hashSecret, newSecret } from "../protocol/secrets.ts";
import { createApi } from "./api.ts";
import { createGuard } from "./auth.ts";
import { type TlsFiles, tlsOf } from "./certificate.ts";
import { createPresence } from "./presence.ts";
import { STORE_FIX, stateProblem } from "./refusals.ts";
import { createSessions, type Sessions } from "./sessions.ts";
import type { ServerSettings } from "./settings.ts";
import { openStore } from "./store/sql-store.ts";
import { type Store, StoreError } from "./store/store.ts";

export interface ServerOptions {
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly random: (bytes: number) => Uint8Array;
  /** A new first admin even where there are operators already: for one who lost the token and owns the state folder. */
  readonly resetAdmin?: boolean;
}

export interface RunningServer {
  /** For programs of this machine. */
  readonly url: string;
  /** Of its certificate, when no authority vouches for it. */
  readonly fingerprint: string | undefined;
  readonly stateDir: string;
  /** Whether this start made the first admin's token. */
  readonly newAdmin: boolean;
  readonly store: Store;
  readonly sessions: Sessions;
  stop(): Promise<void>;
}

interface Stream {
  readonly nodeId: string;
  readonly remote: string;
  events: ConnectionEvents | undefined;
}

/** Throws `UserError` for whatever keeps it from running; nothing is left open then. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { settings, log } = options;
  const undo: (() => void | Promise<void>)[] = [];
  try {
    await usableFolder(settings.stateDir);
    const lock = takeStateLock(settings.stateDir, "server");
    undo.push(() => lock.release());
    const tls = await tlsOf(options);
    const store = await openStoreOf(options);
    undo.push(() => store.close());
    const newAdmin = await ensureAdmin(options, store);
    const running = listen(options, store, tls, newAdmin);
    undo.push(() => running.stop());
    await writeLocalServer(settings.stateDir, running);
    log.info("server ready", { url: running.url, database: store.label, state: settings.stateDir });
    return {
      ...running,
      stop: async () => {
        await running.stop();
        await store.close();
        lock.release();
        log.info("server stopped");
      },
    };
  } catch (error) {
    for (const step of undo.toReversed()) await Promise.resolve(step()).catch(() => undefined);
    throw error;
  }
}

async function usableFolder(folder: string): Promise<void> {
  try {
    await makePrivateFolder(folder);
  } catch (cause) {
    throw stateProblem(folder, cause);
  }
}

async function openStoreOf({ settings, random }: ServerOptions): Promise<Store> {
  let copies = 0;
  try {
    return await openStore(settings.database, {
      newClusterId: () => Buffer.from(random(8)).toString("hex"),
      takeFile,
      freePath: () => `${settings.stateDir}/backup-${process.pid}-${copies++}.tmp`,
    });
  } catch (cause) {
    if (!(cause instanceof StoreError)) throw cause;
    // A password may stand in the URL.
    const where = settings.database.replace(/^([a-z]+:\/\/)[^@/]*@/, "$1");
    throw new UserError({ what: `the database ${where} cannot be used`, why: cause.message, fix: STORE_FIX[cause.kind] }, { cause });
  }
}

/** The first admin's token is on the disk before it counts: what counts and nobody has would lock everybody out. */
async function ensureAdmin({ settings, clock, random, resetAdmin }: ServerOptions, store: Store): Promise<boolean> {
  const operators = await store.operators();
  if (operators.length > 0 && resetAdmin !== true) return false;
  const secret = newSecret("operator", random);
  try {
    await writeWholeFile(`${settings.stateDir}/${ADMIN_TOKEN_FILE}`, `${secret}\n`, { mode: 0o600 });
  } catch (cause) {
    throw stateProblem(settings.stateDir, cause);
  }
  const operator_id = Buffer.from(random(5)).toString("hex");
  await store.addOperator({ operator_id, name: "admin", role: "admin", created_ms: clock.nowMs() }, hashSecret(secret));
  return true;
}

async function writeLocalServer(stateDir: string, { url, fingerprint }: Pick<RunningServer, "url" | "fingerprint">): Promise<void> {
  const local: LocalServer = { version: 1, url, ...compact({ fingerprint }) };
  try {
    await writeWholeFile(`${stateDir}/${LOCAL_SERVER_FILE}`, `${JSON.stringify(local, undefined, 2)}\n`, { mode: 0o644 });
  } catch (cause) {
    throw stateProblem(stateDir, cause);
  }
}

/** A request of `ctl` is short; catalogs will not be longer. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;
/** Requests that still run get this long. */
const GRACE_MS = 5_000;

function listen(options: ServerOptions, store: Store, tls: TlsFiles | undefined, newAdmin: boolean): RunningServer {
  const { settings, clock, log, random, version } = options;
  const listeningSinceMs = clock.nowMs();
  let stopping = false;
  const presence = createPresence({
    clock,
    log,
    store,
    silence: settings.silence,
    listeningSinceMs,
    everyMs: store.kind === "postgres" ? 10_000 : 60_000,
  });
  const sessions = createSessions({
    clock,
    store,
    log,
    version,
    instance: Buffer.from(random(4)).toString("hex"),
    onConnected: (nodeId) => presence.connected(nodeId),
    onDisconnected: (nodeId) => presence.disconnected(nodeId),
  });
  const api = createApi({
    store,
    sessions,
    guard: createGuard({ clock, log, store }),
    clock,
    log,
    version,
    silence: settings.silence,
    listeningSinceMs,
    random,
    joinAt: (request) => ({ server: joinUrl(settings, request, port), fingerprint: tls?.fingerprint }),
    stopping: () => stopping,
  });
  const server = bind(settings, () =>
    Bun.serve<Stream>({
      hostname: settings.host,
      port: settings.port,
      ...(tls === undefined ? {} : { tls: { cert: tls.cert, key: tls.key } }),
      // Bun ends a connection that is silent for 10 s, also one that waits for its answer.
      idleTimeout: 0,
      maxRequestBodySize: MAX_BODY_BYTES,
      fetch: (request, bun) =>
        api(request, bun.requestIP(request)?.address ?? "", (nodeId, remote) =>
          bun.upgrade(request, { data: { nodeId, remote, events: undefined } }),
        ),
      error: (error) => {
        log.error("a request met a bug", { problem: messageOf(error) });
        return new Response("a bug in llmgw\n", { status: 500 });
      },
      websocket: {
        idleTimeout: 0,
        maxPayloadLength: MAX_MESSAGE_BYTES,
        perMessageDeflate: false,
        // Our own limit drops a slow reader before this one does so without a word.
        backpressureLimit: MAX_MESSAGE_BYTES * 2,
        open: (socket) => {
          socket.data.events = sessions.accept(connectionOf(socket), socket.data.nodeId, socket.data.remote);
        },
        message: (socket, message) => {
          if (typeof message === "string") socket.data.events?.message(message);
          else socket.close(1003, "text only");
        },
        close: (socket, code, reason) => socket.data.events?.closed(code, reason),
      },
    }),
  );
  const port = server.port ?? settings.port;
  presence.watch(sessions);
  const scheme = tls === undefined ? "http" : "https";
  return {
    url: `${scheme}://${hostInUrl(isWildcard(settings.host) ? "127.0.0.1" : settings.host)}:${port}`,
    fingerprint: tls?.fingerprint,
    stateDir: settings.stateDir,
    newAdmin,
    store,
    sessions,
    stop: async () => {
      if (stopping) return;
      stopping = true;
      await sessions.stop();
      await Promise.race([server.stop(), new Promise<void>((resolve) => void clock.after(GRACE_MS, resolve))]);
      await server.stop(true);
      await presence.stop();
    },
  };
}

function bind<T>(settings: ServerSettings, start: () => T): T {
  try {
    return start();
  } catch (cause) {
    const at = `${hostInUrl(settings.host)}:${settings.port}`;
    const why = messageOf(cause);
    const fix = /EADDRINUSE|in use/i.test(why)
      ? `see who uses the port: ss -ltnp 'sport = :${settings.port}'; or give another with --listen`
      : "give another with --listen";
    throw new UserError({ what: `the server cannot listen at ${at}`, why, fix }, { cause });
  }
}

function connectionOf(socket: Bun.ServerWebSocket<Stream>): Connection {
  return {
    send: (text) => void socket.sendText(text),
    bufferedBytes: () => socket.getBufferedAmount(),
    close: (code, reason) => socket.close(code, reason),
  };
}

/** Where a node is told to join: as configured; else as whoever asks reached us, unless that works on this machine only. */
function joinUrl(settings: ServerSettings, request: Request, port: number): string {
  if (settings.advertise !== undefined) return settings.advertise;
  const asked = new URL(request.url);
  if (!isLoopback(asked.hostname) || isLoopback(settings.host)) return asked.origin;
  return `${asked.protocol}//${hostInUrl(isWildcard(settings.host) ? (addressesOf()[0] ?? hostName()) : settings.host)}:${port}`;
}

function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

function hostInUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
