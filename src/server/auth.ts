/**
 * Who is asking. A secret is looked up by its SHA-256, so what a database's index takes for it tells nothing of the secret itself; the
 * secrets have 160 bits of chance, so guessing is hopeless, and what is limited is the noise: failures of one address.
 */
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { hashSecret, secretKind } from "../protocol/secrets.ts";
import type { Operator, Store } from "./store/store.ts";

export type Identity =
  | { readonly kind: "operator"; readonly operator: Operator }
  | { readonly kind: "node"; readonly node_id: string; readonly which: "current" | "next"; readonly hash: string };

export type Verdict =
  | { readonly kind: "known"; readonly identity: Identity }
  | { readonly kind: "unknown"; readonly why: string }
  /** Too many failures from there; ask again after so long. */
  | { readonly kind: "limited"; readonly retryAfterS: number };

export interface Guard {
  /** `remote` is the peer's address. Throws `StoreError`. */
  identify(secret: string | undefined, remote: string): Promise<Verdict>;
  /** Whether an address may try a join token; counts a failure when told to. */
  mayTry(remote: string): boolean;
  failed(remote: string, what: string): void;
  /** For metrics. */
  failures(): number;
}

/** Failures in a row that an address may make, and the time after which it may make one more. */
const BURST = 20;
const REFILL_MS = 3_000;
const MAX_ADDRESSES = 10_000;
/** Secrets that counted lately are let through even from an address that fails: one misconfigured node must not lock out its neighbours. */
const MAX_KNOWN = 10_000;

interface Budget {
  readonly left: number;
  readonly atMs: number;
  /** Failures since it was last full. */
  readonly failures: number;
}

export function createGuard(options: {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<Store, "nodeOf" | "operatorOf">;
}): Guard {
  const { clock, log, store } = options;
  const budgets = new Map<string, Budget>();
  const known = new Set<string>();
  let failures = 0;

  const budgetOf = (remote: string): Budget => {
    const nowMs = clock.nowMs();
    const before = budgets.get(addressKey(remote));
    if (before === undefined) return { left: BURST, atMs: nowMs, failures: 0 };
    const left = Math.min(BURST, before.left + (nowMs - before.atMs) / REFILL_MS);
    return { left, atMs: nowMs, failures: left >= BURST ? 0 : before.failures };
  };

  const failed = (remote: string, what: string): void => {
    failures++;
    const budget = budgetOf(remote);
    const after = { ...budget, left: Math.max(0, budget.left - 1), failures: budget.failures + 1 };
    remember(budgets, addressKey(remote), after, MAX_ADDRESSES);
    // The first, and then ever more rarely: a thousand tries are four lines.
    if (after.failures === 1) log.warn("authentication failed", { remote, what });
    else if (budget.left >= 1 && after.left < 1)
      log.warn("authentication fails again and again: limited", { remote, what, failures: after.failures });
    else log.debug("authentication failed", { remote, what });
  };

  const lookUp = async (secret: string, hash: string): Promise<Identity | undefined> => {
    switch (secretKind(secret)) {
      case "operator": {
        const operator = await store.operatorOf(hash);
        return operator === undefined ? undefined : { kind: "operator", operator };
      }
      case "node": {
        const node = await store.nodeOf(hash);
        return node === undefined ? undefined : { kind: "node", ...node, hash };
      }
      default:
        return undefined;
    }
  };

  return {
    identify: async (secret, remote) => {
      if (secret === undefined) return { kind: "unknown", why: "the request has no Authorization: Bearer header" };
      const hash = hashSecret(secret);
      const budget = budgetOf(remote);
      if (budget.left < 1 && !known.has(hash)) {
        failures++;
        return { kind: "limited", retryAfterS: Math.ceil(((1 - budget.left) * REFILL_MS) / 1000) };
      }
      const identity = await lookUp(secret, hash);
      if (identity !== undefined) {
        if (!known.has(hash) && known.size >= MAX_KNOWN) known.delete(known.values().next().value ?? "");
        known.add(hash);
        return { kind: "known", identity };
      }
      known.delete(hash);
      const kind = secretKind(secret);
      failed(remote, kind ?? "unknown form");
      return { kind: "unknown", why: whyUnknown(kind) };
    },
    mayTry: (remote) => budgetOf(remote).left >= 1,
    failed,
    failures: () => failures,
  };
}

function whyUnknown(kind: ReturnType<typeof secretKind>): string {
  switch (kind) {
    case "join":
      return "a join token lets a node join and opens nothing else";
    case "node":
      return "no node has this credential: it was removed, or its credential was replaced";
    case "operator":
      return "no operator has this token: it was removed, or belongs to another cluster";
    case undefined:
      return "it has none of the forms that llmgw makes";
    default:
      return kind satisfies never;
  }
}

/** Of IPv6 the first 64 bits: whoever has one address has all of those. */
function addressKey(remote: string): string {
  if (!remote.includes(":")) return remote;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(remote);
  if (mapped?.[1] !== undefined) return mapped[1];
  const [head = "", tail] = remote.toLowerCase().split("::");
  const groups = head === "" ? [] : head.split(":");
  const rest = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - groups.length - rest.length);
  return [...groups, ...Array.from({ length: zeros }, () => "0"), ...rest].slice(0, 4).join(":");
}

/** The oldest go when there are too many. */
function remember<T>(map: Map<string, T>, key: string, value: T, max: number): void {
  map.delete(key);
  if (map.size >= max) {
    const oldest = map.keys().next().value;
    if (oldest !== undefined) map.delete(oldest);
  }
  map.set(key, value);
}
