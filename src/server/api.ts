/** Answers HTTP below `/api/v1`, and the health endpoints (the table is in protocol/api.ts). No request can throw out of it. */
import { messageOf, UserError } from "../lib/user-error.ts";
import { API_PREFIX } from "../protocol/api.ts";
import { accessRoutes } from "./access-routes.ts";
import type { Identity } from "./auth.ts";
import { join } from "./joining.ts";
import { serverMetrics } from "./metrics.ts";
import { nodeRoutes } from "./node-routes.ts";
import { ApiRefusal, limited, refusalOf, refusalResponse } from "./refusals.ts";
import type { ApiOptions, Route } from "./route.ts";
import type { Operator, Role } from "./store/store.ts";

/** Makes the connection a stream of that node; false when the request asks for none. */
export type Upgrade = (nodeId: string, remote: string) => boolean;

/** `undefined`: the connection was upgraded and is nobody's answer any more. */
export type Api = (request: Request, remote: string, upgrade: Upgrade) => Promise<Response | undefined>;

export function createApi(options: ApiOptions): Api {
  const routes = [...nodeRoutes(options), ...accessRoutes(options)];
  return async (request, remote, upgrade) => {
    try {
      return await answer(options, routes, request, remote, upgrade);
    } catch (error) {
      const refusal = error instanceof UserError ? new ApiRefusal(409, error) : refusalOf(error);
      if (refusal !== undefined) {
        if (refusal.status >= 500) options.log.warn("a request failed", { path: new URL(request.url).pathname, problem: messageOf(error) });
        return refusalResponse(refusal);
      }
      options.log.error("a request met a bug", { path: new URL(request.url).pathname, problem: messageOf(error) });
      const why = "this is a bug in llmgw; the server's log says more";
      return refusalResponse(new ApiRefusal(500, { what: "the server could not answer", why, fix: "report it with the log" }));
    }
  };
}

async function answer(
  options: ApiOptions,
  routes: readonly Route[],
  request: Request,
  remote: string,
  upgrade: Upgrade,
): Promise<Response | undefined> {
  const url = new URL(request.url);
  switch (url.pathname) {
    case "/healthz":
      return new Response("ok\n");
    case "/readyz":
      return ready(options);
    case "/metrics":
      await operatorFor(options, request, remote, "viewer");
      return new Response(await serverMetrics(options), { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } });
    case `${API_PREFIX}/join`:
      if (request.method !== "POST") throw wrongMethod(request.method, ["POST"]);
      return Response.json(await join(options, request, remote));
    case `${API_PREFIX}/stream`:
      return stream(options, request, remote, upgrade);
    default:
  }
  const { route, id } = find(routes, request.method, url.pathname);
  const operator = await operatorFor(options, request, remote, route.role);
  const result = await route.run({ request, url, remote, id, operator });
  return result instanceof Response ? result : Response.json(result);
}

async function ready({ store, stopping }: ApiOptions): Promise<Response> {
  if (stopping()) return new Response("the server stops\n", { status: 503 });
  try {
    await store.ping();
    return new Response("ready\n");
  } catch (error) {
    return new Response(`the database does not answer: ${messageOf(error)}\n`, { status: 503 });
  }
}

/** The route of a path, with what stands for `:id`; a known path with another method is told from an unknown one. */
function find(routes: readonly Route[], method: string, pathname: string): { readonly route: Route; readonly id: string } {
  const words = pathname.split("/");
  const fitting = routes.filter((route) => fits(`${API_PREFIX}${route.path}`.split("/"), words));
  const route = fitting.find((one) => one.method === method);
  if (route !== undefined) return { route, id: decode(words[`${API_PREFIX}${route.path}`.split("/").indexOf(":id")] ?? "") };
  if (fitting.length > 0) {
    throw wrongMethod(
      method,
      fitting.map((one) => one.method),
    );
  }
  throw new ApiRefusal(404, {
    what: `there is nothing at ${pathname.slice(0, 200)}`,
    why: "this server has no such path",
    fix: "check the URL",
  });
}

function fits(pattern: readonly string[], words: readonly string[]): boolean {
  return pattern.length === words.length && pattern.every((part, at) => (part === ":id" ? words[at] !== "" : part === words[at]));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function wrongMethod(method: string, allowed: readonly string[]): ApiRefusal {
  const why = `this path takes ${allowed.join(", ")}`;
  return new ApiRefusal(405, { what: `${method} is not known here`, why, fix: "use one of those" }, { allow: allowed.join(", ") });
}

function bearerOf(request: Request): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(request.headers.get("authorization") ?? "")?.[1];
}

async function identify({ guard }: ApiOptions, request: Request, remote: string): Promise<Identity> {
  const verdict = await guard.identify(bearerOf(request), remote);
  switch (verdict.kind) {
    case "known":
      return verdict.identity;
    case "limited":
      throw limited(verdict.retryAfterS);
    case "unknown":
      throw new ApiRefusal(
        401,
        { what: "the server does not know who asks", why: verdict.why, fix: "give a token that counts: --token-file FILE" },
        { "www-authenticate": "Bearer" },
      );
    default:
      return verdict satisfies never;
  }
}

async function operatorFor(options: ApiOptions, request: Request, remote: string, role: Role): Promise<Operator> {
  const identity = await identify(options, request, remote);
  if (identity.kind === "node") {
    throw new ApiRefusal(403, {
      what: "a node's credential opens the stream and nothing else",
      why: `it is that of "${identity.node_id}"`,
      fix: "use an operator's token",
    });
  }
  const { operator } = identity;
  if (role === "admin" && operator.role !== "admin") {
    throw new ApiRefusal(403, {
      what: `"${operator.name}" may look and not change`,
      why: "this needs the role admin, and the token has the role viewer",
      fix: "use an admin's token",
    });
  }
  return operator;
}

async function stream(options: ApiOptions, request: Request, remote: string, upgrade: Upgrade): Promise<Response | undefined> {
  const identity = await identify(options, request, remote);
  if (identity.kind !== "node") {
    throw new ApiRefusal(403, {
      what: "the stream is for nodes",
      why: "this is an operator's token",
      fix: "let the node join: llmgw ctl token create",
    });
  }
  if (options.stopping())
    throw new ApiRefusal(503, { what: "the server stops", why: "it was told to", fix: "the agent tries again by itself" });
  if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
    const why = "the request does not ask for a WebSocket";
    throw new ApiRefusal(426, { what: "the stream is a WebSocket", why, fix: "connect with llmgw agent" }, { upgrade: "websocket" });
  }
  // Its owner has it and uses it: the one before counts no more.
  if (identity.which === "next") {
    await options.store.confirmCredential(identity.node_id, identity.hash);
    options.log.info("credential replaced", { node: identity.node_id });
  }
  if (upgrade(identity.node_id, remote)) return undefined;
  throw new ApiRefusal(400, {
    what: "the connection cannot become a WebSocket",
    why: "its headers do not fit",
    fix: "connect with llmgw agent",
  });
}
