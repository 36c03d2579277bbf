/** The server's certificate: as given, or one of its own, made at the first start beyond loopback and kept, since agents pin it. */

import { isLoopback } from "../domain/listen-address.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { selfSigned } from "../lib/self-signed.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { addressesOf, hostName } from "../platform/own-names.ts";
import { certificateOf } from "../platform/server-certificate.ts";
import { readWholeFile, writeWholeFile } from "../platform/state-files.ts";
import { stateProblem } from "./refusals.ts";
import type { ServerSettings } from "./settings.ts";

export interface CertificateOptions {
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: (bytes: number) => Uint8Array;
}

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  /** `undefined` for a certificate that somebody else signed. */
  readonly fingerprint: string | undefined;
}

/** `undefined` for plain HTTP. Throws `UserError`. */
export async function tlsOf(options: CertificateOptions): Promise<TlsFiles | undefined> {
  const { settings } = options;
  switch (settings.tls.kind) {
    case "off":
      if (!isLoopback(settings.host))
        options.log.warn("no TLS: secrets travel in clear unless a proxy in front encrypts", { listen: settings.host });
      return undefined;
    case "files":
      return givenTls(settings.tls.cert, settings.tls.key);
    case "self-signed":
      return ownTls(options);
    default:
      return settings.tls satisfies never;
  }
}

async function givenTls(certPath: string, keyPath: string): Promise<TlsFiles> {
  const [cert, key] = await Promise.all([readPem(certPath), readPem(keyPath)]);
  try {
    const read = certificateOf(cert, key);
    return { cert, key, fingerprint: read.selfSigned ? read.fingerprint : undefined };
  } catch (cause) {
    throw new UserError(
      {
        what: `the certificate ${certPath} and the key ${keyPath} cannot be used`,
        why: messageOf(cause),
        fix: "give a certificate and its own key, both PEM",
      },
      { cause },
    );
  }
}

async function readPem(path: string): Promise<string> {
  let text: string | undefined;
  try {
    text = await readWholeFile(path);
  } catch (cause) {
    throw new UserError({ what: `${path} cannot be read`, why: messageOf(cause), fix: "check its rights" }, { cause });
  }
  if (text === undefined) throw new UserError({ what: `${path} cannot be read`, why: "there is no such file", fix: "correct its path" });
  return text;
}

const YEAR_MS = 365 * 86_400_000;

/** Made at the first start and kept: agents pin it. */
async function ownTls({ settings, clock, random, log }: CertificateOptions): Promise<TlsFiles> {
  const [certPath, keyPath] = [`${settings.stateDir}/server.crt`, `${settings.stateDir}/server.key`];
  const [cert, key] = await Promise.all([readWholeFile(certPath), readWholeFile(keyPath)]);
  if (cert !== undefined && key !== undefined) return { cert, key, fingerprint: fingerprintOf(settings.stateDir, cert, key) };
  // A key without its certificate is what a crash between the two writes leaves: nobody has pinned anything yet.
  const made = await selfSigned({
    names: [...new Set([hostName(), "localhost", ...addressesOf(), "127.0.0.1"])],
    fromMs: clock.nowMs() - 86_400_000,
    untilMs: clock.nowMs() + 20 * YEAR_MS,
    serial: random(16),
  });
  try {
    await writeWholeFile(keyPath, made.key, { mode: 0o600 });
    await writeWholeFile(certPath, made.cert, { mode: 0o644 });
  } catch (cause) {
    throw stateProblem(settings.stateDir, cause);
  }
  log.info("certificate made", { file: certPath, fingerprint: made.fingerprint });
  return made;
}

function fingerprintOf(stateDir: string, cert: string, key: string): string {
  try {
    return certificateOf(cert, key).fingerprint;
  } catch (cause) {
    const fix = "restore both from a copy; or move both away: a new one is made, and every node must be given its fingerprint (join again)";
    throw new UserError(
      { what: `the certificate in ${stateDir} (server.crt, server.key) cannot be used`, why: messageOf(cause), fix },
      { cause },
    );
  }
}
