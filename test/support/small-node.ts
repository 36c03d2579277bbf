/** A small machine with one card and one adapter, full of what names a person, a site or a piece of hardware. */

/** Every identity on it, as it stands in some file or answer. */
export const IDENTITIES = {
  cardUuid: "5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77",
  serial: "1654922006173",
  nodeGuid: "a088:c203:0074:cfda",
  portGuid: "a088:c203:0074:cfdb",
  hostname: "trainbox17",
  domain: "trainbox17.lab.example.org",
  alias: "rack7-slot3",
  user: "alice",
  otherUser: "bob",
} as const;

const QUERY = `<?xml version="1.0" ?>
<nvidia_smi_log>
	<driver_version>580.95.05</driver_version>
	<cuda_version>13.0</cuda_version>
	<attached_gpus>1</attached_gpus>
	<gpu id="00000000:18:00.0">
		<product_name>NVIDIA GeForce RTX 4090</product_name>
		<mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
		<mig_devices>None</mig_devices>
		<serial>${IDENTITIES.serial}</serial>
		<uuid>GPU-${IDENTITIES.cardUuid}</uuid>
		<minor_number>0</minor_number>
		<pci><pci_bus_id>00000000:18:00.0</pci_bus_id></pci>
		<fb_memory_usage><total>24564 MiB</total><used>1204 MiB</used></fb_memory_usage>
		<processes>
			<process_info>
				<gpu_instance_id>N/A</gpu_instance_id>
				<compute_instance_id>N/A</compute_instance_id>
				<pid>2210</pid>
				<type>C</type>
				<process_name>/home/${IDENTITIES.otherUser}/venv/bin/python --user ${IDENTITIES.user}</process_name>
				<used_memory>410 MiB</used_memory>
			</process_info>
		</processes>
	</gpu>
</nvidia_smi_log>
`;

const HCA = "root/sys/devices/pci0000:15/0000:19:00.0/infiniband/mlx5_0";

/** Files of a recorded machine's folder. The model folder holds one broken model that names its owner. */
export const SMALL_NODE = {
  "machine.yaml": `about: one card and one adapter
source: composed
from: a test
recorded_at: 2026-11-30T12:00:00Z
unrecorded: absent
commands:
  - { argv: [nvidia-smi, -L], stdout: L.txt }
  - { argv: [nvidia-smi, -q, -x], stdout: q.xml }
  - { argv: [nvidia-smi, topo, -m], stdout: topo.txt }
  - { argv: [nvidia-imex-ctl, -N], exit: 1, stderr: imex.txt }
disks: { /home/${IDENTITIES.user}/models: { total_bytes: 1073741824, free_bytes: 536870912 } }
`,
  "L.txt": `GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-${IDENTITIES.cardUuid})\n`,
  "q.xml": QUERY,
  "topo.txt": "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-47\t0\t\tN/A\n",
  "imex.txt": `Connection to ${IDENTITIES.domain} (10.1.2.3) failed\n`,
  "root/proc/sys/kernel/hostname": `${IDENTITIES.domain}\n`,
  "root/proc/meminfo": "MemTotal:       65761280 kB\n",
  "root/etc/llmgw/agent.yaml": `hostname: ${IDENTITIES.alias}
fabrics:
  - { name: rail0, adapters: ["${IDENTITIES.nodeGuid}"] }
model_dirs: [/home/${IDENTITIES.user}/models/, /data/${IDENTITIES.hostname}]
`,
  "root/sys/class/infiniband/mlx5_0": { link: "../../devices/pci0000:15/0000:19:00.0/infiniband/mlx5_0" },
  [`${HCA}/device`]: { link: "../../../0000:19:00.0" },
  [`${HCA}/node_guid`]: `${IDENTITIES.nodeGuid}\n`,
  [`${HCA}/fw_ver`]: "28.39.1002\n",
  [`${HCA}/board_id`]: "MT_0000000838\n",
  [`${HCA}/ports/1/state`]: "4: ACTIVE\n",
  [`${HCA}/ports/1/phys_state`]: "5: LinkUp\n",
  [`${HCA}/ports/1/rate`]: "400 Gb/sec (4X NDR)\n",
  [`${HCA}/ports/1/link_layer`]: "InfiniBand\n",
  [`${HCA}/ports/1/lid`]: "0x1f\n",
  [`${HCA}/ports/1/sm_lid`]: "0x1\n",
  [`${HCA}/ports/1/gids/0`]: `fe80:0000:0000:0000:${IDENTITIES.portGuid}\n`,
  "root/sys/devices/pci0000:15/0000:19:00.0/numa_node": "0\n",
  "root/sys/devices/pci0000:15/0000:19:00.0/vendor": "0x15b3\n",
  "root/sys/devices/pci0000:15/0000:18:00.0/numa_node": "0\n",
  "root/sys/bus/pci/devices/0000:19:00.0": { link: "../../../devices/pci0000:15/0000:19:00.0" },
  "root/sys/bus/pci/devices/0000:18:00.0": { link: "../../../devices/pci0000:15/0000:18:00.0" },
  [`root/home/${IDENTITIES.user}/models`]: { link: `/srv/${IDENTITIES.hostname}/weights` },
  [`root/srv/${IDENTITIES.hostname}/weights/tiny/config.json`]: '{"architectures":["LlamaForCausalLM"],"model_type":"SECRET-OF-THE-MODEL"}',
  [`root/srv/${IDENTITIES.hostname}/weights/tiny/model.safetensors`]: "SECRET-OF-THE-MODEL",
} as const;
