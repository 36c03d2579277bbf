/** Flags that every command of `llmgw ctl` takes, and those of the ones that show something. */
import type { Flags, FlagValues } from "../command.ts";

export const SERVER_FLAGS = {
  server: { kind: "string", hint: "URL", summary: "the control plane, such as https://llmgw.example:8400; also LLMGW_SERVER" },
  "token-file": { kind: "string", hint: "FILE", summary: "file with an operator's token; also LLMGW_TOKEN_FILE" },
  fingerprint: { kind: "string", hint: "sha256:…", summary: "the one certificate that the server may show" },
  ca: { kind: "string", hint: "FILE", summary: "certificates to trust for the server, PEM" },
  state: { kind: "string", hint: "DIR", summary: "address and token from the state folder of a server of this machine" },
  json: { kind: "boolean", summary: "print data instead of text" },
} as const satisfies Flags;
export type ServerArgs = FlagValues<typeof SERVER_FLAGS>;

export const WATCH_FLAGS = {
  watch: { kind: "boolean", summary: "look again and again until Ctrl-C; without a terminal only what changed is printed" },
  interval: { kind: "string", hint: "SECONDS", summary: "with --watch: time between two looks; 2 unless given" },
} as const satisfies Flags;
export type WatchArgs = FlagValues<typeof WATCH_FLAGS>;

export const REMOVAL_FLAGS = {
  yes: { kind: "boolean", summary: "do it without asking" },
  "dry-run": { kind: "boolean", summary: "say what would be done, and change nothing" },
} as const satisfies Flags;
export type RemovalArgs = FlagValues<typeof REMOVAL_FLAGS>;
