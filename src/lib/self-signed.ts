/**
 * A certificate that nobody vouches for: who connects pins its fingerprint. EC key on P-256, signed with itself (X.509 version 3, RFC
 * 5280; ECDSA with SHA-256, RFC 5758). Written in DER by hand, since Bun makes keys and no certificates.
 */

export interface SelfSigned {
  /** PEM. */
  readonly cert: string;
  /** PEM, PKCS #8. */
  readonly key: string;
  /** `sha256:` and 64 hex digits of the certificate's DER form. */
  readonly fingerprint: string;
}

export interface SelfSignedOptions {
  /** DNS names and IPv4 addresses that it is for, at least one. */
  readonly names: readonly string[];
  readonly fromMs: number;
  readonly untilMs: number;
  /** 16 bytes of chance. */
  readonly serial: Uint8Array;
}

export async function selfSigned(options: SelfSignedOptions): Promise<SelfSigned> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const { publicKey, privateKey } = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
  const body = tbsCertificate(options, spki);
  const raw = new Uint8Array(await crypto.subtle.sign(algorithm, privateKey, new Uint8Array(body)));
  // WebCrypto gives r and s side by side; a certificate wants them as two integers (RFC 3279, section 2.2.3).
  const signature = sequence(integer(raw.subarray(0, 32)), integer(raw.subarray(32)));
  const der = sequence(body, ECDSA_SHA256, bitString(signature));
  return {
    cert: pem("CERTIFICATE", der),
    key: pem("PRIVATE KEY", new Uint8Array(await crypto.subtle.exportKey("pkcs8", privateKey))),
    fingerprint: `sha256:${new Bun.CryptoHasher("sha256").update(der).digest("hex")}`,
  };
}

function tbsCertificate({ names, fromMs, untilMs, serial }: SelfSignedOptions, spki: Uint8Array): Uint8Array {
  const name = sequence(set(sequence(oid(2, 5, 4, 3), utf8(names[0] ?? "llmgw"))));
  const validity = sequence(time(fromMs), time(untilMs));
  const alternatives = sequence(...names.map(alternative));
  const extensions = sequence(
    // It is its own authority, and may sign nothing below it.
    extension(oid(2, 5, 29, 19), true, sequence(TRUE, tlv(0x02, new Uint8Array([0])))),
    extension(oid(2, 5, 29, 17), false, alternatives),
  );
  const version3 = tlv(0xa0, tlv(0x02, new Uint8Array([2])));
  return sequence(version3, integer(serial), ECDSA_SHA256, name, validity, name, spki, tlv(0xa3, extensions));
}

function tlv(tag: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const content = Buffer.concat(parts);
  const bytes: number[] = [];
  for (let rest = content.length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  const length = content.length < 0x80 ? [content.length] : [0x80 | bytes.length, ...bytes];
  return Buffer.concat([new Uint8Array([tag, ...length]), content]);
}

function sequence(...parts: readonly Uint8Array[]): Uint8Array {
  return tlv(0x30, ...parts);
}

function set(...parts: readonly Uint8Array[]): Uint8Array {
  return tlv(0x31, ...parts);
}

/** Never negative, and as short as it goes. */
function integer(bytes: Uint8Array): Uint8Array {
  const first = bytes.findIndex((byte) => byte !== 0);
  const short = first < 0 ? new Uint8Array([0]) : bytes.subarray(first);
  return (short[0] ?? 0) >= 0x80 ? tlv(0x02, new Uint8Array([0]), short) : tlv(0x02, short);
}

function bitString(content: Uint8Array): Uint8Array {
  return tlv(0x03, new Uint8Array([0]), content);
}

function utf8(text: string): Uint8Array {
  return tlv(0x0c, Buffer.from(text));
}

function oid(first: number, second: number, ...rest: readonly number[]): Uint8Array {
  const base128 = (number: number): readonly number[] => {
    const digits = [number & 0x7f];
    for (let left = number >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80);
    return digits;
  };
  return tlv(0x06, new Uint8Array([first * 40 + second, ...rest.flatMap(base128)]));
}

/** Two digits of the year until 2049, four from 2050 on (RFC 5280, section 4.1.2.5). */
function time(ms: number): Uint8Array {
  const text = `${new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "")}`;
  return Number(text.slice(0, 4)) < 2050 ? tlv(0x17, Buffer.from(text.slice(2))) : tlv(0x18, Buffer.from(text));
}

function alternative(name: string): Uint8Array {
  const parts = /^\d{1,3}(?:\.\d{1,3}){3}$/.test(name) ? name.split(".").map(Number) : undefined;
  return parts === undefined ? tlv(0x82, Buffer.from(name)) : tlv(0x87, new Uint8Array(parts));
}

function extension(id: Uint8Array, critical: boolean, value: Uint8Array): Uint8Array {
  return sequence(id, ...(critical ? [TRUE] : []), tlv(0x04, value));
}

const TRUE = tlv(0x01, new Uint8Array([0xff]));
const ECDSA_SHA256 = sequence(oid(1, 2, 840, 10045, 4, 3, 2));

function pem(label: string, der: Uint8Array): string {
  const lines =
    Buffer.from(der)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}
