/** `llmgw server`: the control plane, until it is told to stop. */

import { SERVER_CONFIG_PATH } from "../domain/config-paths.ts";
import { ServerConfig } from "../domain/server-config.ts";
import { defaultStateDir } from "../domain/state-dir.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { parseYamlText } from "../lib/yaml-file.ts";
import { readWholeFile } from "../platform/state-files.ts";
import { type RunningServer, startServer } from "../server/server.ts";
import { serverSettings } from "../server/settings.ts";
import { defineCommand } from "./command.ts";
import { surroundings, untilStopped } from "./long-running.ts";

export const server = defineCommand({
  name: "server",
  summary: "control plane: nodes join it, and llmgw ctl steers it",
  description: `Runs until SIGTERM or Ctrl-C. Reads ${SERVER_CONFIG_PATH}; flags win over it.`,
  flags: {
    config: { kind: "string", hint: "FILE", summary: `read this instead of ${SERVER_CONFIG_PATH}` },
    listen: { kind: "string", hint: "ADDRESS:PORT", summary: "where to listen; default 0.0.0.0:8400" },
    state: { kind: "string", hint: "DIR", summary: "folder of the database, the certificate and the first admin's token" },
    database: { kind: "string", hint: "URL", summary: "sqlite:///PATH or postgres://USER@HOST/DATABASE; also LLMGW_DATABASE" },
    "tls-cert": { kind: "string", hint: "FILE", summary: "certificate chain, PEM; without one a self-signed one is made" },
    "tls-key": { kind: "string", hint: "FILE", summary: "its private key, PEM" },
    advertise: { kind: "string", hint: "URL", summary: "where nodes are told to join" },
    "reset-admin": { kind: "boolean", summary: "make a new admin token in the state folder, for one who lost the first" },
    json: { kind: "boolean", summary: "print where it ran as data when it ends" },
  },
  examples: [
    "llmgw server",
    "llmgw server --listen 127.0.0.1:8400 --state ./state",
    "llmgw server --database postgres://llmgw@db.example/llmgw --advertise https://llmgw.example:8400",
  ],
  run: async (ctx, args) => {
    const config = await readServerConfig(args.config);
    const settings = serverSettings(
      config,
      {
        listen: args.listen,
        stateDir: args.state,
        database: args.database ?? nonEmpty(ctx.env.LLMGW_DATABASE),
        tlsCert: args["tls-cert"],
        tlsKey: args["tls-key"],
        advertise: args.advertise,
      },
      { listen: "0.0.0.0:8400", stateDir: defaultStateDir("server", ctx) },
    );
    const running = await startServer({
      settings,
      ...surroundings(ctx),
      resetAdmin: args["reset-admin"] === true,
    });
    if (running.newAdmin) ctx.log.info("first admin's token written", { file: `${running.stateDir}/admin.token` });
    await untilStopped(ctx);
    await running.stop();
    return { data: { server: shown(running) }, text: "" };
  },
});

function shown({ url, fingerprint, stateDir }: RunningServer) {
  return { url, fingerprint, state: stateDir };
}

/** A file that was named must be there; the usual one need not be. */
async function readServerConfig(named: string | undefined): Promise<ServerConfig> {
  const file = named ?? SERVER_CONFIG_PATH;
  let text: string | undefined;
  try {
    text = await readWholeFile(file);
  } catch (cause) {
    throw new UserError(
      { what: `${file} cannot be read`, why: messageOf(cause), fix: "check its rights, or give another with --config" },
      { cause },
    );
  }
  if (text !== undefined) return parseYamlText(ServerConfig, text, file, "correct it; its keys are in docs/reference/server-yaml.md");
  if (named === undefined) return {};
  throw new UserError({ what: `${file} cannot be read`, why: "there is no such file", fix: "correct --config, or leave it out" });
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
