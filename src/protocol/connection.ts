/**
 * The seam under the stream: text messages between two ends, over a WebSocket or, in simulations, over memory. Neither end relies on a
 * message arriving, arriving once, or arriving in order: state is sent whole, with revisions, until the other side says that it has it.
 */

export interface Connection {
  /** Hands a message over. Nothing is known of its arrival. */
  send(text: string): void;
  /** Bytes handed over and not sent yet. */
  bufferedBytes(): number;
  /** Ends it; `closed` is still called. `code` as in WebSocket (RFC 6455, section 7.4). */
  close(code: number, reason: string): void;
}

/** What the transport calls. */
export interface ConnectionEvents {
  message(text: string): void;
  /** Once, whoever ended it. Nothing is called after it. */
  closed(code: number, reason: string): void;
}

/**
 * Opens a connection from the agent's side. Resolves once messages can be sent. Throws `UserError` when a person must act before it can
 * work (a credential that does not count, another certificate), anything else when trying again may help. Aborting the signal gives up.
 */
export type Connect = (events: ConnectionEvents, signal: AbortSignal) => Promise<Connection>;

/** Codes that we close with. Source: RFC 6455, section 7.4.1, and the IANA registry of close codes. */
export const CloseCode = {
  /** Done, nothing is wrong. */
  normal: 1000,
  /** This end goes away: the server stops, the agent stops. */
  goingAway: 1001,
  /** A message that breaks the rules. */
  policy: 1008,
  /** A message beyond the size cap. */
  tooBig: 1009,
  /** Too much waits for this peer: dropped, to come back and get the whole state. */
  tryAgainLater: 1013,
} as const;
