/** The agent's end of the stream: keeps one connection to the server, and what the server has stored equal to what is true here. */
import type { LoadSample } from "../domain/load-sample.ts";
import type { Part } from "../protocol/messages.ts";

export type LinkState =
  | { readonly kind: "connecting"; readonly failures: number; readonly problem: string | undefined }
  | { readonly kind: "connected"; readonly sinceMs: number; readonly serverVersion: string }
  | { readonly kind: "refused"; readonly what: string; readonly why: string; readonly fix: string }
  | { readonly kind: "stopped" };

export interface Link {
  /** What is true now, whole. One that says the same as before costs nothing. */
  set(part: Part, body: unknown): void;
  /** Goes out with the next beat; only the last one matters. */
  setLoad(sample: LoadSample): void;
  state(): LinkState;
  figures(): LinkFigures;
  /** Closes the connection and stays away. */
  stop(): Promise<void>;
}

/** For metrics; they only rise. */
export interface LinkFigures {
  readonly connects: number;
  readonly failures: number;
  readonly received: number;
  readonly sent: number;
  readonly malformed: number;
}
