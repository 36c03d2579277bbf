/** `agent.yaml`, the configuration of one node, at `/etc/llmgw/agent.yaml` unless told otherwise. People write it: typos are errors. */
import * as v from "valibot";
import { ListenAddress } from "./listen-address.ts";
import { NodeId } from "./node.ts";

const AbsolutePath = v.pipe(v.string(), v.regex(/^\//, "an absolute path"));

export const FabricDeclaration = v.strictObject({
  name: v.pipe(
    v.string(),
    v.regex(/^[a-z0-9][a-z0-9._-]{0,62}$/i, "a name of letters, digits, '.', '_' and '-'"),
    v.description("Name of the fabric"),
  ),
  adapters: v.pipe(
    v.array(v.string()),
    v.minLength(1, "at least one adapter"),
    v.description("Adapters on it: by name (`mlx5_0`), PCI id (`0000:1a:00.0`) or node GUID (`a088:c203:0074:cfda`)"),
  ),
});
export type FabricDeclaration = v.InferOutput<typeof FabricDeclaration>;

export const DiscoveryConfig = v.strictObject({
  nvidia_smi: v.optional(v.pipe(AbsolutePath, v.description("nvidia-smi to run instead of the one on the PATH"))),
  ib_root: v.optional(v.pipe(AbsolutePath, v.description("Folder to read adapters from instead of `/sys/class/infiniband`"))),
  prefer_nvml: v.optional(v.pipe(v.boolean(), v.description("Ask the NVML library first; by default where it is there"))),
  skip_gpus: v.optional(v.pipe(v.array(v.string()), v.description('Cards that llmgw leaves alone: by index (`"3"`), UUID or PCI bus id'))),
});
export type DiscoveryConfig = v.InferOutput<typeof DiscoveryConfig>;

export const Waiver = v.strictObject({
  id: v.pipe(v.string(), v.minLength(1), v.description("The check, such as `gpu-power-limit`")),
  subject: v.optional(
    v.pipe(
      v.string(),
      v.description("Only what doctor calls so: `gpu 3`, `mlx5_0/1`; `*` stands for any text. All subjects when left out"),
    ),
  ),
  reason: v.pipe(v.string(), v.minLength(1, "a reason"), v.description("Why it is accepted; shown with the finding")),
  until: v.optional(
    v.pipe(
      v.string(),
      v.check((text) => /^\d{4}-\d{2}-\d{2}/.test(text) && !Number.isNaN(Date.parse(text)), "a date such as 2027-01-31"),
      v.description("Last day on which it counts. For good when left out"),
    ),
  ),
});
export type Waiver = v.InferOutput<typeof Waiver>;

const Xids = v.record(
  v.pipe(v.string(), v.regex(/^\d{1,4}$/, "the number of an Xid")),
  v.picklist(["block", "degrade", "advise", "ignore"]),
);

export const DoctorConfig = v.strictObject({
  xids: v.optional(
    v.pipe(Xids, v.description("What Xid numbers mean here, where doctor's own table is not wanted: `{ 63: advise, 999: block }`")),
  ),
  waive: v.optional(v.pipe(v.array(Waiver), v.description("Findings that are accepted: shown as waived, never hidden"))),
});
export type DoctorConfig = v.InferOutput<typeof DoctorConfig>;

export const AgentTls = v.strictObject({
  ca: v.optional(v.pipe(AbsolutePath, v.description("Certificates to trust for the server, PEM, instead of the system's"))),
  fingerprint: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^sha256:[0-9a-f]{64}$/i, "sha256: and 64 hex digits"),
      v.description("The one certificate that the server may show, whoever signed it"),
    ),
  ),
});

export const PortRange = v.pipe(
  v.string(),
  v.regex(/^\d{1,5}-\d{1,5}$/, "a range such as 18000-18999"),
  v.check((text) => {
    const [from = 0, to = 0] = text.split("-").map(Number);
    return from >= 1024 && from <= to && to <= 65_535;
  }, "ports from 1024 to 65535, the lower one first"),
);

export const AgentConfig = v.strictObject({
  server: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^https?:\/\/[^/\s]+\/?$/, "a URL such as https://llmgw.example:8400"),
      v.description("URL of the control plane. Plain `http` only on loopback"),
    ),
  ),
  node_id: v.optional(v.pipe(NodeId, v.description("Name of this node in the cluster. Default: the host name"))),
  mgmt_addr: v.optional(
    v.pipe(v.string(), v.minLength(1), v.description("Address at which the control plane reaches engines here. Default: the one it sees")),
  ),
  tls: v.optional(v.pipe(AgentTls, v.description("How the server's certificate is judged"))),
  token_file: v.optional(v.pipe(AbsolutePath, v.description("File with a join token, for the first start; it may be deleted afterwards"))),
  state_dir: v.optional(v.pipe(AbsolutePath, v.description("Folder of the node's credential and memory. Default `/var/lib/llmgw/agent`"))),
  metrics_listen: v.optional(
    v.pipe(
      v.union([ListenAddress, v.literal("off")], "ADDRESS:PORT, or off"),
      v.description("Where `/metrics` is. Default `127.0.0.1:8401`"),
    ),
  ),
  engines: v.optional(
    v.pipe(
      v.record(
        v.picklist(["vllm", "sglang", "llama.cpp", "command"]),
        v.strictObject({ program: v.optional(v.pipe(AbsolutePath, v.description("Its program, where that is not on the PATH"))) }),
      ),
      v.description("Engines that are installed here, by kind"),
    ),
  ),
  ports: v.optional(v.pipe(PortRange, v.description("Ports for engines. Default `18000-18999`"))),
  waive: v.optional(v.pipe(v.array(Waiver), v.description("Findings that are accepted, as `doctor.waive`"))),
  hostname: v.optional(v.pipe(v.string(), v.minLength(1), v.description("Host name to report instead of the kernel's"))),
  fabrics: v.optional(
    v.pipe(v.array(FabricDeclaration), v.description("Fabrics that this node's adapters are on; names are declared, never guessed")),
  ),
  discovery: v.optional(v.pipe(DiscoveryConfig, v.description("How hardware is looked for"))),
  model_dirs: v.optional(v.pipe(v.array(AbsolutePath), v.description("Folders to look for weights in, instead of the usual places"))),
  doctor: v.optional(v.pipe(DoctorConfig, v.description("How `llmgw doctor` judges this node"))),
});
export type AgentConfig = v.InferOutput<typeof AgentConfig>;

/** Those at the top and those under `doctor` count alike. */
export function waiversOf(config: AgentConfig): readonly Waiver[] {
  return [...(config.waive ?? []), ...(config.doctor?.waive ?? [])];
}
