/** From server.yaml and flags to what a server runs with: flags win, then the file, then the defaults. Pure. */
import { isLoopback } from "../domain/listen-address.ts";
import { SILENCE, type Silence } from "../domain/node.ts";
import type { ServerConfig } from "../domain/server-config.ts";
import { noStateDir } from "../domain/state-dir.ts";
import { UserError } from "../lib/user-error.ts";

export interface ServerFlags {
  readonly listen?: string | undefined;
  readonly stateDir?: string | undefined;
  readonly database?: string | undefined;
  readonly tlsCert?: string | undefined;
  readonly tlsKey?: string | undefined;
  readonly advertise?: string | undefined;
}

export type TlsChoice =
  | { readonly kind: "off" }
  | { readonly kind: "self-signed" }
  | { readonly kind: "files"; readonly cert: string; readonly key: string };

export interface ServerSettings {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly stateDir: string;
  readonly database: string;
  readonly tls: TlsChoice;
  /** Without a slash at its end; `undefined`: made up of this host's names. */
  readonly advertise: string | undefined;
  readonly silence: Silence;
}

export interface Defaults {
  readonly listen: string;
  /** `undefined` when this user has no place of their own. */
  readonly stateDir: string | undefined;
}

export function serverSettings(config: ServerConfig, flags: ServerFlags, defaults: Defaults): ServerSettings {
  const { host, port } = parseListen(flags.listen ?? config.listen ?? defaults.listen);
  const stateDir = flags.stateDir ?? config.state_dir ?? defaults.stateDir;
  if (stateDir === undefined) throw noStateDir();
  const lateMs = (config.nodes?.late_after_s ?? SILENCE.lateMs / 1000) * 1000;
  const lostMs = (config.nodes?.lost_after_s ?? SILENCE.lostMs / 1000) * 1000;
  if (lostMs < lateMs) {
    throw new UserError({
      what: `nodes.lost_after_s (${lostMs / 1000}) is shorter than nodes.late_after_s (${lateMs / 1000})`,
      why: "a node is late before it is lost",
      fix: "make lost_after_s the longer one",
    });
  }
  return {
    host,
    port,
    stateDir,
    database: flags.database ?? config.database ?? `sqlite://${stateDir}/store.db`,
    tls: tlsChoice(config, flags, host),
    advertise: (flags.advertise ?? config.advertise)?.replace(/\/+$/, ""),
    silence: { lateMs, lostMs },
  };
}

function tlsChoice(config: ServerConfig, flags: ServerFlags, host: string): TlsChoice {
  if ((flags.tlsCert === undefined) !== (flags.tlsKey === undefined)) {
    throw new UserError({
      what: flags.tlsCert === undefined ? "--tls-key is given without --tls-cert" : "--tls-cert is given without --tls-key",
      why: "a certificate is of no use without its key",
      fix: "give both",
    });
  }
  if (flags.tlsCert !== undefined && flags.tlsKey !== undefined) return { kind: "files", cert: flags.tlsCert, key: flags.tlsKey };
  if (config.tls === "off") return { kind: "off" };
  if (config.tls !== undefined) return { kind: "files", cert: config.tls.cert, key: config.tls.key };
  return isLoopback(host) ? { kind: "off" } : { kind: "self-signed" };
}

/** `ADDRESS:PORT` or `[ADDRESS]:PORT`. */
export function parseListen(text: string): { readonly host: string; readonly port: number } {
  const found = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+)):(\d{1,5})$/i.exec(text);
  const port = Number(found?.[3]);
  if (found === null || port > 65_535) {
    throw new UserError({
      what: `"${text}" is no address to listen at`,
      why: found === null ? "it is not ADDRESS:PORT" : "ports end at 65535",
      fix: "write it as 0.0.0.0:8400 or [::]:8400",
    });
  }
  return { host: found[1] ?? found[2] ?? "", port };
}
