/** A real server in the test's own process: on loopback, on a free port, in a temporary folder. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../src/lib/clock.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/lib/log.ts";
import { hashSecret, newSecret } from "../../src/protocol/secrets.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type ServerFlags, serverSettings } from "../../src/server/settings.ts";
import { type TemporaryFolder, temporaryFolder } from "./folders.ts";
import { type LogLines, logLines } from "./wire.ts";

export interface TestServer extends AsyncDisposable {
  readonly running: RunningServer;
  readonly admin: string;
  readonly log: LogLines;
  readonly folder: TemporaryFolder;
  /** Below `/api/v1`, as the admin unless told otherwise (`""` for nobody). */
  call(method: string, path: string, body?: unknown, secret?: string): Promise<ApiAnswer>;
  /** A node that has joined, and its credential. */
  joined(nodeId: string): Promise<string>;
  /** Ends it and starts it again on the same folder and port. */
  restart(): Promise<void>;
}

export interface ApiAnswer {
  readonly status: number;
  // Tests look at whatever came.
  // biome-ignore lint/suspicious/noExplicitAny: what a test expects of it is checked by the test
  readonly body: any;
  readonly headers: Headers;
}

export const random = (bytes: number): Uint8Array => crypto.getRandomValues(new Uint8Array(bytes));

export interface TestServerOptions {
  readonly flags?: ServerFlags;
  readonly clock?: Clock;
}

export async function testServer(options: TestServerOptions = {}): Promise<TestServer> {
  const folder = temporaryFolder();
  const log = logLines();
  const start = (listen: string): Promise<RunningServer> =>
    startServer({
      settings: serverSettings({}, { listen, stateDir: join(folder.path, "state"), ...options.flags }, { listen, stateDir: undefined }),
      clock: options.clock ?? systemClock,
      log: createLog({ level: "debug", write: (line) => log.lines.push(line), now: () => new Date() }),
      version: "1.0.0",
      random,
    });
  let running = await start("127.0.0.1:0");
  const admin = readFileSync(join(running.stateDir, "admin.token"), "utf8").trim();

  const call = async (method: string, path: string, body?: unknown, secret = admin): Promise<ApiAnswer> => {
    const response = await fetch(`${running.url}/api/v1${path}`, {
      method,
      headers: secret === "" ? {} : { authorization: `Bearer ${secret}` },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: jsonOf(text), headers: response.headers };
  };
  return {
    get running() {
      return running;
    },
    admin,
    log,
    folder,
    call,
    joined: async (nodeId) => {
      const token = await call("POST", "/tokens", { uses: 1 });
      const credential = newSecret("node", random);
      const answer = await call(
        "POST",
        "/join",
        { token: token.body.secret, node_id: nodeId, credential_hash: hashSecret(credential) },
        "",
      );
      if (answer.status !== 200) throw new Error(`${nodeId} could not join: ${JSON.stringify(answer.body)}`);
      return credential;
    },
    restart: async () => {
      const { port } = new URL(running.url);
      await running.stop();
      running = await start(`127.0.0.1:${port}`);
    },
    [Symbol.asyncDispose]: async () => {
      await running.stop();
      folder[Symbol.dispose]();
    },
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A node's end of the stream, spoken by hand. */
export interface HandAgent extends Disposable {
  send(message: object): void;
  sendBytes(bytes: Uint8Array<ArrayBuffer>): void;
  /** The next message of that kind, those of other kinds skipped. Rejects when the connection closes first. */
  // biome-ignore lint/suspicious/noExplicitAny: what a test expects of it is checked by the test
  next(kind: string): Promise<any>;
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
}

export async function handAgent(server: TestServer, credential: string): Promise<HandAgent> {
  const socket = new WebSocket(`${server.running.url.replace(/^http/, "ws")}/api/v1/stream`, {
    headers: { authorization: `Bearer ${credential}` },
  });
  const waiting: { kind: string; resolve: (message: unknown) => void; reject: (error: Error) => void }[] = [];
  const arrived: { kind: string }[] = [];
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.onclose = ({ code, reason }) => {
      for (const one of waiting.splice(0)) one.reject(new Error(`closed (${code} ${reason}) before a ${one.kind}`));
      resolve({ code, reason });
    };
  });
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(String(data));
    const at = waiting.findIndex((one) => one.kind === message.kind);
    if (at < 0) arrived.push(message);
    else waiting.splice(at, 1)[0]?.resolve(message);
  };
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve();
    socket.onerror = () => reject(new Error("the stream did not open"));
  });
  return {
    send: (message) => socket.send(JSON.stringify(message)),
    sendBytes: (bytes) => socket.send(bytes),
    next: (kind) => {
      const at = arrived.findIndex((message) => message.kind === kind);
      if (at >= 0) return Promise.resolve(arrived.splice(at, 1)[0]);
      return new Promise((resolve, reject) => waiting.push({ kind, resolve, reject }));
    },
    closed,
    [Symbol.dispose]: () => socket.close(),
  };
}
