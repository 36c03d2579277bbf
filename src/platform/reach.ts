/** The way to a server, step by step: the first step that fails says where to look. */
import { lookup } from "node:dns/promises";
import { connect } from "node:net";
import { messageOf, UserError } from "../lib/user-error.ts";
import { clientTls, lookAtCertificate, type ServerCertificate, type Trust } from "./server-certificate.ts";

export type ReachStep = "look up" | "connect to" | "speak TLS with" | "ask";

export interface Reached {
  /** `undefined`: it answers. */
  readonly failed: { readonly step: ReachStep; readonly error: string } | undefined;
  /** `undefined` for plain HTTP, and where it was not seen. */
  readonly certificate: ServerCertificate | undefined;
  /** The server's clock, ms since 1970, to a second. */
  readonly serverTimeMs: number | undefined;
}

/** Limit of each step, ms. */
const STEP_MS = 2_000;

/** Never throws, but when the signal aborts. */
export async function reach(url: string, trust: Trust, signal?: AbortSignal): Promise<Reached> {
  const { protocol, hostname, port } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, "");
  const seen: { certificate: ServerCertificate | undefined; serverTimeMs: number | undefined } = {
    certificate: undefined,
    serverTimeMs: undefined,
  };
  const steps: readonly (readonly [ReachStep, () => Promise<void>])[] = [
    ["look up", async () => void (await lookup(host))],
    ["connect to", () => connectTo(host, Number(port === "" ? (protocol === "https:" ? 443 : 80) : port))],
    [
      "speak TLS with",
      async () => {
        if (protocol === "https:") seen.certificate = await lookAtCertificate(url, signal);
      },
    ],
    [
      "ask",
      async () => {
        const tls = await clientTls(url, trust, signal);
        const response = await fetch(`${url}/healthz`, { redirect: "manual", ...(tls === undefined ? {} : { tls }) });
        if (!response.ok) throw new Error(`HTTP status ${response.status}`);
        const date = Date.parse(response.headers.get("date") ?? "");
        seen.serverTimeMs = Number.isNaN(date) ? undefined : date;
      },
    ],
  ];
  for (const [step, take] of steps) {
    try {
      await within(STEP_MS, take());
    } catch (error) {
      if (signal?.aborted === true) throw error;
      // A certificate that is not trusted is noticed when the question is put.
      const untrusted = step === "ask" && (error instanceof UserError || /certificate|CERT_|self[- ]signed|issuer/i.test(messageOf(error)));
      const why = error instanceof UserError ? `${error.what}: ${error.why}` : messageOf(error);
      return { ...seen, failed: { step: untrusted ? "speak TLS with" : step, error: why } };
    }
  }
  return { ...seen, failed: undefined };
}

function connectTo(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    socket.setTimeout(STEP_MS, () => socket.destroy(new Error(`no answer within ${STEP_MS / 1000} s`)));
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.destroy();
      resolve();
    });
  });
}

async function within<T>(limitMs: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${limitMs / 1000} s`)), limitMs);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
    work.catch(() => undefined);
  }
}
