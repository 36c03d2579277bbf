/** `server.yaml`, the configuration of the control plane, at `/etc/llmgw/server.yaml` unless told otherwise. */
import * as v from "valibot";
import { ListenAddress } from "./listen-address.ts";

const AbsolutePath = v.pipe(v.string(), v.regex(/^\//, "an absolute path"));
const Seconds = v.pipe(v.number(), v.minValue(1));

export const ServerTls = v.strictObject({
  cert: v.pipe(AbsolutePath, v.description("Certificate chain, PEM")),
  key: v.pipe(AbsolutePath, v.description("Its private key, PEM")),
});

export const ServerConfig = v.strictObject({
  listen: v.optional(v.pipe(ListenAddress, v.description("Where agents and `llmgw ctl` connect. Default `0.0.0.0:8400`"))),
  state_dir: v.optional(
    v.pipe(AbsolutePath, v.description("Folder of the store, the certificate and the first admin token. Default `/var/lib/llmgw/server`")),
  ),
  database: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^(?:sqlite|postgres|postgresql):\/\//, "sqlite:///PATH or postgres://USER@HOST/DATABASE"),
      v.description("Where the control plane remembers. Default: `store.db` in the state folder"),
    ),
  ),
  tls: v.optional(
    v.pipe(
      v.union([ServerTls, v.literal("off")], "cert and key, or off"),
      v.description("Certificate and key; `off` for plain HTTP behind a proxy. Default: a self-signed certificate, none on loopback"),
    ),
  ),
  advertise: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^https?:\/\//, "a URL such as https://llmgw.example:8400"),
      v.description("URL that nodes are told to join at. Default: this host's name and port"),
    ),
  ),
  nodes: v.optional(
    v.strictObject({
      late_after_s: v.optional(v.pipe(Seconds, v.description("Silence after which nothing new is placed on a node. Default 25"))),
      lost_after_s: v.optional(v.pipe(Seconds, v.description("Silence after which a node is lost. Default 90"))),
    }),
  ),
});
export type ServerConfig = v.InferOutput<typeof ServerConfig>;
