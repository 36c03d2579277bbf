/** SHA-256 of a value's JSON text, in hex: equal texts, equal content. Keys in another order make another hash, which costs one resend. */
export function contentHash(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}
