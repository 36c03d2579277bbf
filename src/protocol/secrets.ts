/**
 * Secrets that prove who asks: 160 bits of chance behind a prefix that says what it is for, so that one which was pasted in the wrong
 * place is recognised, and scanners of leaked secrets find it. The store keeps SHA-256 of each and nothing else.
 */

/** A join token, a node's credential, an operator's key for `ctl`. */
export type SecretKind = "join" | "node" | "operator";

const PREFIX: Readonly<Record<SecretKind, string>> = { join: "llmgw-join-", node: "llmgw-node-", operator: "llmgw-op-" };
const KINDS: readonly SecretKind[] = ["join", "node", "operator"];
const BYTES = 20;

/** `random` gives that many bytes of good chance. */
export function newSecret(kind: SecretKind, random: (bytes: number) => Uint8Array): string {
  return `${PREFIX[kind]}${Buffer.from(random(BYTES)).toString("hex")}`;
}

/** What a text claims to be; `undefined` when it has none of our forms. */
export function secretKind(text: string): SecretKind | undefined {
  return KINDS.find((kind) => text.startsWith(PREFIX[kind]) && /^[0-9a-f]{40}$/.test(text.slice(PREFIX[kind].length)));
}

/** SHA-256, 64 hex digits: what the store compares. Looking a hash up tells an attacker's clock nothing of the secret behind it. */
export function hashSecret(secret: string): string {
  return new Bun.CryptoHasher("sha256").update(secret).digest("hex");
}
