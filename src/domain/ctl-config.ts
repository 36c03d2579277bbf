/** `ctl.yaml`: which server `llmgw ctl` talks to when nothing else says so. People write it: typos are errors. Pure. */
import * as v from "valibot";
import { AgentTls } from "./agent-config.ts";
import type { WhoRuns } from "./state-dir.ts";

const HomePath = v.pipe(v.string(), v.regex(/^(?:~?\/)/, "an absolute path, or one that begins with ~/"));

/** `sha256:…` of the one certificate that counts. */
export const Fingerprint = AgentTls.entries.fingerprint.wrapped;

export const CtlConfig = v.strictObject({
  server: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^https?:\/\/[^/\s@]+\/?$/, "a URL such as https://llmgw.example:8400"),
      v.description("URL of the control plane. Plain `http` only on loopback"),
    ),
  ),
  token_file: v.optional(v.pipe(HomePath, v.description("File with an operator's token. It is sent to `server` and to no other"))),
  tls: v.optional(
    v.pipe(
      v.strictObject({
        ca: v.optional(v.pipe(HomePath, v.description("Certificates to trust for the server, PEM, instead of the system's"))),
        fingerprint: v.optional(Fingerprint),
      }),
      v.description("How the server's certificate is judged"),
    ),
  ),
});
export type CtlConfig = v.InferOutput<typeof CtlConfig>;

/** `$XDG_CONFIG_HOME/llmgw/ctl.yaml`, by default in `~/.config`; `undefined` when there is neither that variable nor a home. */
export function ctlConfigPath({ env }: Pick<WhoRuns, "env">): string | undefined {
  if (env.XDG_CONFIG_HOME?.startsWith("/") === true) return `${env.XDG_CONFIG_HOME.replace(/\/+$/, "")}/llmgw/ctl.yaml`;
  return env.HOME?.startsWith("/") === true ? `${env.HOME.replace(/\/+$/, "")}/.config/llmgw/ctl.yaml` : undefined;
}
