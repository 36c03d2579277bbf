/** NVLinks of a card and its place in an NVLink fabric. */
import { compact } from "../lib/compact.ts";
import { MAX_LINKS, NVML_CODES, NVML_FIELDS, NVML_STRUCTS, NVML_VERSIONS, NVML_WORDS, wordOf } from "./nvml-layout.ts";
import type { Device, Reader, Scratch } from "./nvml-reader.ts";
import type { NvmlFabric, NvmlLink } from "./nvml-snapshot.ts";

/** "No such link", and "no NVLink at all" when it comes at the first one. */
const NO_LINK: readonly number[] = [NVML_CODES.notSupported, NVML_CODES.invalidArgument];

/** `[]` for a card without NVLink, `undefined` when the driver does not say. */
export function readLinks(reader: Reader, device: Device, capability: string | undefined): NvmlLink[] | undefined {
  const states = statesOfFields(reader, device, capability) ?? statesOneByOne(reader, device);
  return states?.map(({ link, active }) => (active ? activeLink(reader, device, link) : { link, active }));
}

interface LinkState {
  readonly link: number;
  readonly active: boolean;
}

const HOPPER = 9;

/** From Hopper on the field is the better source (NCCL reads it too). A link that it does not know is none. Value 2, asleep, is present. */
function statesOfFields(reader: Reader, device: Device, capability: string | undefined): readonly LinkState[] | undefined {
  if (!(Number(capability?.split(".")[0]) >= HOPPER)) return undefined;
  const wanted = Array.from({ length: MAX_LINKS }, (_, scope) => ({ id: NVML_FIELDS.NVML_FI_DEV_NVLINK_GET_STATE, scope }));
  // The codes of links that the card does not have say nothing.
  const values = reader.fields({ ...device, codes: {} }, wanted);
  const states = values.flatMap((value, link) => (value === undefined ? [] : [{ link, active: value !== 0 }]));
  return states.length === 0 ? undefined : states;
}

function statesOneByOne(reader: Reader, device: Device): readonly LinkState[] | undefined {
  const states: LinkState[] = [];
  for (let link = 0; link < MAX_LINKS; link++) {
    const out = reader.out();
    const code = reader.ask(device, "nvmlDeviceGetNvLinkState", [link, out.bytes], NO_LINK);
    if (NO_LINK.includes(code)) return states;
    if (code !== NVML_CODES.success) return undefined;
    states.push({ link, active: out.u32() !== 0 });
  }
  return states;
}

function activeLink(reader: Reader, device: Device, link: number): NvmlLink {
  const type = reader.u32(device, "nvmlDeviceGetNvLinkRemoteDeviceType", [link]);
  const remote_type = type === undefined ? undefined : wordOf(NVML_WORDS.linkRemote, type);
  // A switch's own bus id says nothing about who is behind it.
  const remote_bus_id = remote_type === "switch" ? undefined : remoteBusId(reader, device, link);
  return compact({ link, active: true, remote_type, remote_bus_id });
}

function remoteBusId(reader: Reader, device: Device, link: number): string | undefined {
  const out = reader.out();
  const code = reader.ask(device, "nvmlDeviceGetNvLinkRemotePciInfo_v2", [link, out.bytes]);
  return code === NVML_CODES.success ? out.text(NVML_STRUCTS.nvmlPciInfo_t.busId, 32) : undefined;
}

/** Newest struct first; each step down when this driver does not know it. */
export function readFabric(reader: Reader, device: Device): NvmlFabric | undefined {
  const v3 = reader.versioned(device, "nvmlDeviceGetGpuFabricInfoV", NVML_VERSIONS.nvmlGpuFabricInfo_v3);
  if (v3 !== undefined) {
    const layout = NVML_STRUCTS.nvmlGpuFabricInfo_v3_t;
    const health_summary = wordOf(NVML_WORDS.fabricHealth, v3.u32(layout.healthSummary) & 0xff);
    return { ...fabricOf(v3, layout), health_summary, health_mask: v3.u32(layout.healthMask) };
  }
  const v2 = reader.versioned(device, "nvmlDeviceGetGpuFabricInfoV", NVML_VERSIONS.nvmlGpuFabricInfo_v2);
  if (v2 !== undefined) {
    const layout = NVML_STRUCTS.nvmlGpuFabricInfo_v2_t;
    return { ...fabricOf(v2, layout), health_mask: v2.u32(layout.healthMask) };
  }
  const out = reader.out();
  if (reader.ask(device, "nvmlDeviceGetGpuFabricInfo", [out.bytes]) !== NVML_CODES.success) return undefined;
  return fabricOf(out, NVML_STRUCTS.nvmlGpuFabricInfo_t);
}

interface FabricLayout {
  readonly clusterUuid: number;
  readonly status: number;
  readonly cliqueId: number;
  readonly state: number;
}

function fabricOf(out: Scratch, layout: FabricLayout): NvmlFabric {
  return {
    state: wordOf(NVML_WORDS.fabricState, out.u32(layout.state) & 0xff),
    status: out.u32(layout.status),
    cluster_uuid: uuidText(out.bytes.subarray(layout.clusterUuid, layout.clusterUuid + 16)),
    clique_id: out.u32(layout.cliqueId),
  };
}

function uuidText(bytes: Uint8Array): string {
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
