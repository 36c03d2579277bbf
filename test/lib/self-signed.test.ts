import { expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { selfSigned } from "../../src/lib/self-signed.ts";
import { clientTls, lookAtCertificate } from "../../src/platform/server-certificate.ts";

const made = await selfSigned({
  names: ["gw.example", "localhost", "127.0.0.1"],
  fromMs: Date.parse("2026-01-02T03:04:05Z"),
  untilMs: Date.parse("2056-01-02T03:04:05Z"),
  serial: new Uint8Array([0x80, ...Array.from({ length: 15 }, (_, at) => at)]),
});

test("another implementation reads what was meant, and the signature holds", () => {
  const read = new X509Certificate(made.cert);
  expect(read.verify(read.publicKey)).toBe(true);
  expect(read.subject).toBe("CN=gw.example");
  expect(read.subjectAltName).toBe("DNS:gw.example, DNS:localhost, IP Address:127.0.0.1");
  expect(Date.parse(read.validFrom)).toBe(Date.parse("2026-01-02T03:04:05Z"));
  expect(Date.parse(read.validTo)).toBe(Date.parse("2056-01-02T03:04:05Z"));
  expect(read.serialNumber.toLowerCase()).toBe("80000102030405060708090a0b0c0d0e");
  expect(`sha256:${read.fingerprint256.replaceAll(":", "").toLowerCase()}`).toBe(made.fingerprint);
});

test("two are never the same, and a serial of leading zeros is read as well", async () => {
  const options = { names: ["a"], fromMs: 0, untilMs: 1e12, serial: new Uint8Array(16) };
  const [one, other] = [await selfSigned(options), await selfSigned(options)];
  expect(one.fingerprint).not.toBe(other.fingerprint);
  expect(new X509Certificate(one.cert).serialNumber).toBe("0");
});

test("who pins its fingerprint may talk to a server that shows it, under whatever name, and nobody is let in by another", async () => {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, tls: { cert: made.cert, key: made.key }, fetch: () => new Response("hello") });
  try {
    const url = `https://127.0.0.1:${server.port}`;
    await expect(fetch(url)).rejects.toThrow();
    const shown = await lookAtCertificate(url);
    expect(shown.fingerprint).toBe(made.fingerprint);
    expect(shown.until_ms).toBe(Date.parse("2056-01-02T03:04:05Z"));
    const tls = await clientTls(url, { fingerprint: made.fingerprint.toUpperCase().replace("SHA256", "sha256") });
    expect(await (await fetch(url, tls === undefined ? {} : { tls })).text()).toBe("hello");
    const named = url.replace("127.0.0.1", "localhost");
    expect(await (await fetch(named, tls === undefined ? {} : { tls })).text()).toBe("hello");
    const other = `sha256:${"0".repeat(64)}`;
    await expect(clientTls(url, { fingerprint: other })).rejects.toMatchObject({
      name: "UserError",
      why: `expected ${other}, found ${made.fingerprint}`,
    });
  } finally {
    await server.stop(true);
  }
});

test("a certificate that was pinned lets no other server in", async () => {
  const other = await selfSigned({ names: ["gw.example"], fromMs: 0, untilMs: 4e12, serial: new Uint8Array([1]) });
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls: { cert: other.cert, key: other.key },
    fetch: () => new Response("hello"),
  });
  try {
    const tls = { ca: made.cert, checkServerIdentity: () => undefined };
    await expect(fetch(`https://127.0.0.1:${server.port}`, { tls })).rejects.toThrow();
  } finally {
    await server.stop(true);
  }
});

test("a server that is not there, or speaks no TLS, is no certificate", async () => {
  const plain = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("hello") });
  const url = `https://127.0.0.1:${plain.port}`;
  await expect(lookAtCertificate(url)).rejects.toThrow();
  await plain.stop(true);
  await expect(lookAtCertificate(url)).rejects.toThrow();
});

test("plain HTTP has no certificate to judge, and a file of authorities that is not there is named", async () => {
  expect(await clientTls("http://127.0.0.1:1", { fingerprint: made.fingerprint })).toBeUndefined();
  expect(await clientTls("https://gw.example", {})).toBeUndefined();
  await expect(clientTls("https://gw.example", { ca: "/nowhere/ca.pem" })).rejects.toMatchObject({
    what: "the certificates in /nowhere/ca.pem cannot be read",
  });
});
