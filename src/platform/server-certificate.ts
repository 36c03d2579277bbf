/** Whom to trust at the other end of a TLS connection: the system's authorities, those of a file, or exactly one certificate. */

import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { connect } from "node:tls";
import { messageOf, UserError } from "../lib/user-error.ts";

export interface Trust {
  /** File with certificates, PEM, instead of the system's. */
  readonly ca?: string | undefined;
  /** `sha256:…` of the one certificate that counts, whoever signed it and whatever its names. */
  readonly fingerprint?: string | undefined;
}

/** What `fetch` and `WebSocket` take as `tls`. */
export interface ClientTls {
  readonly ca?: string;
  readonly checkServerIdentity?: () => undefined;
}

export interface ServerCertificate {
  readonly fingerprint: string;
  readonly pem: string;
  readonly from_ms: number;
  readonly until_ms: number;
}

/**
 * The TLS part for calls to `url`; `undefined` for plain HTTP and for the system's authorities. With a fingerprint the server is
 * connected to once, to see its certificate: then that certificate is the only authority.
 *
 * Throws `UserError` when the server shows another certificate or the file of authorities cannot be read, anything else when the server
 * cannot be reached.
 */
export async function clientTls(url: string, trust: Trust, signal?: AbortSignal): Promise<ClientTls | undefined> {
  if (new URL(url).protocol !== "https:") return undefined;
  if (trust.fingerprint !== undefined) {
    const shown = await lookAtCertificate(url, signal);
    const wanted = trust.fingerprint.toLowerCase();
    if (shown.fingerprint !== wanted) throw otherCertificate(url, wanted, shown.fingerprint);
    return { ca: shown.pem, checkServerIdentity: () => undefined };
  }
  if (trust.ca === undefined) return undefined;
  try {
    return { ca: await readFile(trust.ca, "utf8") };
  } catch (cause) {
    throw new UserError(
      { what: `the certificates in ${trust.ca} cannot be read`, why: messageOf(cause), fix: "correct tls.ca, or leave it out" },
      { cause },
    );
  }
}

function otherCertificate(url: string, wanted: string, shown: string): UserError {
  return new UserError({
    what: `${url} shows another certificate than the one that was pinned`,
    why: `expected ${wanted}, found ${shown}`,
    fix: "someone may be in between; if the server's certificate was replaced, take the new fingerprint from: llmgw ctl token create",
  });
}

const LOOK_MS = 5_000;

/** The certificate that a server shows, trusted or not. Throws when it cannot be reached within 5 s or speaks no TLS. */
export function lookAtCertificate(url: string, signal?: AbortSignal): Promise<ServerCertificate> {
  const { hostname, port } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, "");
  return new Promise((resolve, reject) => {
    const named = /^[\d.]+$|:/.test(host) ? {} : { servername: host };
    const socket = connect({ host, port: Number(port === "" ? 443 : port), rejectUnauthorized: false, ...named });
    const fail = (error: Error): void => {
      socket.destroy();
      reject(error);
    };
    const timer = setTimeout(() => fail(new Error(`no answer within ${LOOK_MS / 1000} s`)), LOOK_MS);
    const stop = (): void => fail(new Error("given up"));
    signal?.addEventListener("abort", stop, { once: true });
    socket.once("error", fail);
    socket.once("close", () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
      reject(new Error("the connection was closed before a certificate was shown"));
    });
    socket.once("secureConnect", () => {
      const { raw, valid_from: from, valid_to: until } = socket.getPeerCertificate(true);
      socket.destroy();
      if (raw === undefined) reject(new Error("no certificate was shown"));
      else resolve(describe(raw, from, until));
    });
  });
}

/** A certificate (the first of a chain) and its key. Throws when either cannot be read, or they do not belong together. */
export function certificateOf(cert: string, key: string): ServerCertificate & { readonly selfSigned: boolean } {
  const read = new X509Certificate(cert);
  if (!read.checkPrivateKey(createPrivateKey(key))) throw new Error("the key is not that of the certificate");
  return { ...describe(read.raw, read.validFrom, read.validTo), selfSigned: read.subject === read.issuer && read.verify(read.publicKey) };
}

function describe(der: Uint8Array, from: string, until: string): ServerCertificate {
  const lines =
    Buffer.from(der)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return {
    fingerprint: `sha256:${new Bun.CryptoHasher("sha256").update(der).digest("hex")}`,
    pem: `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`,
    from_ms: Date.parse(from),
    until_ms: Date.parse(until),
  };
}
