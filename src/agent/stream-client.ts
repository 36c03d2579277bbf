/** Opens the agent's WebSocket, and finds out in words why it could not be opened. */
import { messageOf, UserError } from "../lib/user-error.ts";
import { type ClientTls, clientTls } from "../platform/server-certificate.ts";
import { API_PREFIX, Done } from "../protocol/api.ts";
import { callApi } from "../protocol/client.ts";
import { CloseCode, type Connection, type ConnectionEvents } from "../protocol/connection.ts";
import { MAX_MESSAGE_BYTES } from "../protocol/messages.ts";
import type { ServerPlace } from "./join.ts";

export interface StreamClient {
  /**
   * Throws `CredentialRefused` when the server does not know the credential, `UserError` for another no that a person must mend, anything
   * else when trying again may help.
   */
  open(credential: string, events: ConnectionEvents, signal: AbortSignal): Promise<Connection>;
}

/** The server answers, and this credential does not count there. */
export class CredentialRefused extends UserError {}

export function createStreamClient(server: ServerPlace): StreamClient {
  // A pinned certificate is looked at once: a thousand agents that come back together do not shake hands twice.
  let tls: { readonly value: ClientTls | undefined } | undefined;
  return {
    open: async (credential, events, signal) => {
      try {
        tls ??= { value: await clientTls(server.url, server.trust, signal) };
        return await openSocket(server.url, tls.value, credential, events, signal);
      } catch (error) {
        // The next try looks again: the server may have been given another certificate, and that must be said.
        const before = tls?.value;
        tls = undefined;
        if (signal.aborted || error instanceof UserError) throw error;
        throw await reasonOf(server.url, before, credential, error, signal);
      }
    },
  };
}

function openSocket(
  url: string,
  tls: ClientTls | undefined,
  credential: string,
  events: ConnectionEvents,
  signal: AbortSignal,
): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}${API_PREFIX}/stream`, {
      headers: { authorization: `Bearer ${credential}` },
      perMessageDeflate: false,
      ...(tls === undefined ? {} : { tls }),
    });
    let opened = false;
    const giveUp = (): void => {
      socket.close();
      reject(new Error("given up"));
    };
    signal.addEventListener("abort", giveUp, { once: true });
    socket.onopen = () => {
      opened = true;
      signal.removeEventListener("abort", giveUp);
      resolve({
        send: (text) => {
          if (socket.readyState === WebSocket.OPEN) socket.send(text);
        },
        bufferedBytes: () => socket.bufferedAmount,
        close: (code, reason) => socket.close(code, reason),
      });
    };
    socket.onmessage = ({ data }) => {
      if (typeof data !== "string") socket.close(1003, "text only");
      else if (data.length > MAX_MESSAGE_BYTES) socket.close(CloseCode.tooBig, "message too long");
      else events.message(data);
    };
    socket.onerror = (event) => {
      if (!opened) reject(new Error("message" in event && typeof event.message === "string" ? event.message : "no connection"));
    };
    socket.onclose = ({ code, reason }) => {
      signal.removeEventListener("abort", giveUp);
      if (opened) events.closed(code, reason);
      else reject(new Error(`closed before it was open (${code}${reason === "" ? "" : `: ${reason}`})`));
    };
  });
}

/** A WebSocket that is refused tells no reason: the same question without the upgrade does. */
async function reasonOf(url: string, tls: ClientTls | undefined, credential: string, error: unknown, signal: AbortSignal): Promise<Error> {
  const outcome = await callApi(
    { url, tls, secret: credential },
    { method: "GET", path: "/stream", answer: Done, timeoutMs: 5_000, signal },
  );
  switch (outcome.kind) {
    case "refused":
      if (outcome.status === 401) return new CredentialRefused(outcome.error);
      if (outcome.status === 403) return new UserError(outcome.error);
      // 426 is what one gets who would have been let in.
      return new Error(outcome.status === 426 ? messageOf(error) : outcome.error.what);
    case "unreachable":
      return new Error(`${url} cannot be reached: ${outcome.problem}`);
    case "strange":
    case "ok":
      // A proxy whose server is away answers so.
      if (outcome.kind === "strange" && outcome.status >= 500) return new Error(`${url}: ${outcome.problem}`);
      return new UserError({
        what: `${url} is no llmgw server that this agent knows`,
        why: outcome.kind === "ok" ? "it answers what a server of ours never does" : outcome.problem,
        fix: "check the server's address, and whether a proxy in between knows WebSockets",
      });
    default:
      return outcome satisfies never;
  }
}
