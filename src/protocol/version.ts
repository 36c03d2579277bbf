/**
 * The protocol of the stream between agent and server: one rising integer, sent in the first message of either side.
 *
 * A new optional field whose absence means what was before needs no new number. A changed meaning does. Names are never used again.
 * test/protocol/frames/ keeps messages of every number that is accepted; they must parse.
 *
 * | number | since | what one who speaks it understands |
 * | --- | --- | --- |
 * | 1 | 0.1.0 | hello, inventory, findings, beat, answer; welcome, refuse, ack, ask (alive, doctor, rotate-credential) |
 */
export const PROTOCOL = 1;

/** The oldest that this version still speaks. */
export const OLDEST_PROTOCOL = 1;
