/** One end of a stream without a socket: what was sent is in a list, what arrives is said by the test. */
import type { Connection } from "../../src/protocol/connection.ts";

export interface TestConnection extends Connection {
  /** Messages handed over so far. */
  readonly sent: Record<string, unknown>[];
  readonly closed: { code: number; reason: string } | undefined;
  buffered: number;
  /** Those sent of one kind. */
  of(kind: string): readonly Record<string, unknown>[];
}

export function testConnection(): TestConnection {
  const sent: Record<string, unknown>[] = [];
  let closed: { code: number; reason: string } | undefined;
  return {
    sent,
    buffered: 0,
    get closed() {
      return closed;
    },
    send: (text) => sent.push(JSON.parse(text)),
    bufferedBytes() {
      return this.buffered;
    },
    close: (code, reason) => {
      closed ??= { code, reason };
    },
    of: (kind) => sent.filter((message) => message.kind === kind),
  };
}

export interface LogLines {
  readonly lines: string[];
  /** How often a text stands in it. */
  count(text: string): number;
}

export function logLines(): LogLines {
  const lines: string[] = [];
  return { lines, count: (text) => lines.filter((line) => line.includes(text)).length };
}
