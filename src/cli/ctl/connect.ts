/**
 * Which server, and with which secret. What is said outright wins: flags, then variables, then ctl.yaml, then a server of this machine. A
 * token is sent to the server that it was named with and to no other: `--server` alone does not carry the token of ctl.yaml elsewhere.
 */
import * as v from "valibot";
import { CtlConfig, ctlConfigPath, Fingerprint } from "../../domain/ctl-config.ts";
import { isLoopback } from "../../domain/listen-address.ts";
import { ADMIN_TOKEN_FILE, LOCAL_SERVER_FILE, LocalServer } from "../../domain/local-server.ts";
import { defaultStateDir } from "../../domain/state-dir.ts";
import { printable } from "../../lib/printable.ts";
import { messageOf, UserError } from "../../lib/user-error.ts";
import { parseYamlText } from "../../lib/yaml-file.ts";
import { clientTls, type Trust } from "../../platform/server-certificate.ts";
import { readWholeFile } from "../../platform/state-files.ts";
import type { ApiServer } from "../../protocol/client.ts";
import { secretKind } from "../../protocol/secrets.ts";
import { usageError } from "../command.ts";
import type { Context } from "../context.ts";
import type { ServerArgs } from "./flags.ts";
import { ServerAway } from "./server-away.ts";

export interface Remote extends ApiServer {
  /** Where its address was read, for people: `--server`, a file. */
  readonly from: string;
  readonly tokenFile: string;
}

/** What one source says. */
interface Place {
  readonly url: string;
  readonly from: string;
  readonly tokenFile: string | undefined;
  readonly trust: Trust;
}

interface Given {
  readonly value: string;
  readonly from: string;
}

type Who = Pick<Context, "env" | "root" | "signal">;

/** Throws `UserError` when nothing names a server or a token, or what does cannot be used. */
export async function connect(ctx: Who, args: ServerArgs): Promise<Remote> {
  const place = await choosePlace(ctx, args);
  refuseClear(place.url);
  const given = givenTrust(args);
  const tokenFile = givenIn(args["token-file"], "--token-file", ctx.env, "LLMGW_TOKEN_FILE")?.value ?? place.tokenFile;
  if (tokenFile === undefined) throw noToken(place, ctx);
  const secret = await readToken(tokenFile);
  return { url: place.url, from: place.from, tokenFile, secret, tls: await tlsOf(place, given ?? place.trust, ctx.signal) };
}

async function choosePlace(ctx: Who, args: ServerArgs): Promise<Place> {
  if (args.state !== undefined) {
    if (args.server !== undefined) throw usageError("--state and --server contradict each other", "both name a server", "give one of them");
    return namedState(args.state);
  }
  const server = givenIn(args.server, "--server", ctx.env, "LLMGW_SERVER");
  if (server === undefined) return (await configPlace(ctx)) ?? (await localPlace(ctx));
  const url = serverUrl(server.value, server.from);
  const bare: Place = { url, from: server.from, tokenFile: undefined, trust: {} };
  // What is given outright needs no files, and one that is broken is no matter then.
  const complete = givenIn(args["token-file"], "--token-file", ctx.env, "LLMGW_TOKEN_FILE") !== undefined;
  if (complete && (givenTrust(args) !== undefined || url.startsWith("http:"))) return bare;
  const known = [await configPlace(ctx), ...(await localPlaces(ctx)).found].find((place) => place?.url === url);
  return known === undefined ? bare : { ...known, from: server.from };
}

function givenIn(flag: string | undefined, name: string, env: Context["env"], variable: string): Given | undefined {
  if (flag !== undefined) return { value: flag, from: name };
  const value = env[variable];
  return value === undefined || value === "" ? undefined : { value, from: variable };
}

function givenTrust(args: ServerArgs): Trust | undefined {
  const { ca, fingerprint } = args;
  if (ca !== undefined && fingerprint !== undefined) {
    throw usageError("--ca and --fingerprint contradict each other", "a pinned certificate needs no authority", "give one of them");
  }
  if (fingerprint !== undefined && !v.is(Fingerprint, fingerprint)) {
    const fix = "copy it from what llmgw ctl token create prints, or from the server's log";
    throw usageError(`--fingerprint ${fingerprint} is none`, "it is sha256: and 64 hex digits", fix);
  }
  return ca === undefined && fingerprint === undefined ? undefined : { ca, fingerprint };
}

/** Without a slash at its end. Throws `UserError` for what is no server's address. */
function serverUrl(text: string, from: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const plain = url !== undefined && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
  if (plain && url.pathname === "/" && url.search === "" && url.hash === "") return url.origin;
  throw new UserError({
    // Somebody may have put a password into it.
    what: `${from} ${printable(text.replace(/\/\/[^/]*@/, "//…@"))} is no server's URL`,
    why: "it is http or https, a host, and a port",
    fix: "write it as https://llmgw.example:8400",
  });
}

function refuseClear(url: string): void {
  const { protocol, hostname } = new URL(url);
  if (protocol === "https:" || isLoopback(hostname)) return;
  throw new UserError({
    what: `${url} is not encrypted`,
    why: "the token would travel in clear; plain http is for loopback only",
    fix: `use ${url.replace(/^http:/, "https:")}`,
  });
}

async function configPlace(ctx: Who): Promise<Place | undefined> {
  const file = ctlConfigPath(ctx);
  const text = file === undefined ? undefined : await readGiven(file, "correct its rights, or give --server and --token-file");
  if (file === undefined || text === undefined) return undefined;
  const config = await parseYamlText(CtlConfig, text, file, "correct it; its keys are in docs/reference/ctl-yaml.md");
  if (config.server === undefined) return undefined;
  const inHome = (path: string | undefined): string | undefined => path?.replace(/^~(?=\/)/, ctx.env.HOME ?? "~");
  return {
    url: serverUrl(config.server, `${file}, server:`),
    from: file,
    tokenFile: inHome(config.token_file),
    trust: { ca: inHome(config.tls?.ca), fingerprint: config.tls?.fingerprint },
  };
}

async function localPlace(ctx: Who): Promise<Place> {
  const { found, closed, looked } = await localPlaces(ctx);
  const [first] = found;
  if (first !== undefined) return first;
  const [shut] = closed;
  if (shut !== undefined) {
    throw new UserError({
      what: `the state folder ${shut.folder} may not be read`,
      why: shut.why,
      fix: "run this as the user that the server runs as (sudo), or give --server URL and --token-file FILE",
    });
  }
  const file = ctlConfigPath(ctx) ?? "~/.config/llmgw/ctl.yaml";
  throw new UserError({
    what: "no server is named",
    why: `--server and LLMGW_SERVER are not given, ${file} names none, and no server of this machine is in ${looked.join(" or ")}`,
    fix: `give --server URL and --token-file FILE, write server and token_file to ${file}, or give --state DIR of a server of this machine`,
  });
}

interface LocalPlaces {
  readonly found: readonly Place[];
  /** Folders that this user may not look into. */
  readonly closed: readonly { readonly folder: string; readonly why: string }[];
  readonly looked: readonly string[];
}

/** Servers of this machine: this user's, then, for whoever is not root, that of the system. */
async function localPlaces(ctx: Who): Promise<LocalPlaces> {
  const own = (["server", "up"] as const).map((role) => defaultStateDir(role, ctx));
  const system = (["server", "up"] as const).map((role) => defaultStateDir(role, { env: ctx.env, root: true }));
  const looked = [...new Set([...own, ...system].filter((folder) => folder !== undefined))];
  const found: Place[] = [];
  const closed: { readonly folder: string; readonly why: string }[] = [];
  for (const folder of looked) {
    try {
      const place = await statePlace(folder);
      if (place !== undefined) found.push(place);
    } catch (error) {
      if (error instanceof UserError) throw error;
      closed.push({ folder, why: messageOf(error) });
    }
  }
  return { found, closed, looked };
}

async function namedState(folder: string): Promise<Place> {
  let place: Place | undefined;
  try {
    place = await statePlace(folder);
  } catch (cause) {
    if (cause instanceof UserError) throw cause;
    const fix = "run this as the user that the server runs as, or give --server URL and --token-file FILE";
    throw new UserError({ what: `the state folder ${folder} may not be read`, why: messageOf(cause), fix }, { cause });
  }
  if (place !== undefined) return place;
  throw new UserError({
    what: `--state ${folder} is no state folder of a server`,
    why: `there is no ${LOCAL_SERVER_FILE} in it, which a server writes when it starts`,
    fix: "give the folder that llmgw server or llmgw up was started with, or start it",
  });
}

/** `undefined` when no server has run there. Throws `UserError` for a file that is damaged, and what the system said when it may not be read. */
async function statePlace(folder: string): Promise<Place | undefined> {
  const file = `${folder}/${LOCAL_SERVER_FILE}`;
  const text = await readWholeFile(file);
  if (text === undefined) return undefined;
  const checked = v.safeParse(LocalServer, jsonOf(text));
  if (!checked.success) {
    const why = `${v.getDotPath(checked.issues[0]) ?? "its root"}: ${checked.issues[0].message}`;
    throw new UserError({ what: `${file} cannot be used`, why, fix: "start the server again: it writes the file anew" });
  }
  const { url, fingerprint } = checked.output;
  return { url: serverUrl(url, `${file}, url:`), from: file, tokenFile: `${folder}/${ADMIN_TOKEN_FILE}`, trust: { fingerprint } };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function readToken(file: string): Promise<string> {
  const text = await readGiven(file, "run this as its owner, or give another with --token-file");
  if (text === undefined) {
    throw new UserError({
      what: `the token file ${file} cannot be read`,
      why: "there is no such file",
      fix: "give another with --token-file FILE; whoever owns the server's state folder makes a new admin with: llmgw server --reset-admin",
    });
  }
  const secret = text.trim();
  const kind = secretKind(secret);
  if (kind === "operator") return secret;
  throw new UserError({
    what: `${file} holds no operator's token`,
    // Never the text itself: it may be a secret of something else.
    why: kind === undefined ? "it has not the form llmgw-op-…" : KIND_TEXT[kind],
    fix: "give another with --token-file FILE; an admin makes one with: llmgw ctl operator create NAME --role viewer",
  });
}

const KIND_TEXT = {
  join: "it is a join token, with which a node joins and which opens nothing else",
  node: "it is a node's credential, which is for its own agent",
} as const;

async function readGiven(file: string, fix: string): Promise<string | undefined> {
  try {
    return await readWholeFile(file);
  } catch (cause) {
    throw new UserError({ what: `${file} cannot be read`, why: messageOf(cause), fix }, { cause });
  }
}

function noToken({ url, from }: Place, ctx: Who): UserError {
  const file = ctlConfigPath(ctx) ?? "ctl.yaml";
  return new UserError({
    what: `there is no token for ${url}`,
    why: `its address comes from ${from}; --token-file and LLMGW_TOKEN_FILE are not given, and ${file} has no token_file for this server`,
    fix: "give --token-file FILE; an admin makes a token with: llmgw ctl operator create NAME --role viewer",
  });
}

async function tlsOf(place: Place, trust: Trust, signal: AbortSignal): Promise<ApiServer["tls"]> {
  try {
    return await clientTls(place.url, trust, signal);
  } catch (error) {
    if (error instanceof UserError || signal.aborted) throw error;
    throw ServerAway.unreachable(place, messageOf(error));
  }
}
