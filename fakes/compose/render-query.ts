/** `nvidia-smi -q -x`, shortened: the elements that matter here, in the order and with the names of the driver's generation. */
import type {
  CardDescription,
  DriverDescription,
  FabricHealthDescription,
  InstanceDescription,
  NodeDescription,
  ProcessDescription,
  SupportedClocks,
} from "./description.ts";

/** Children in order: a text, or an element of its own. An array under one name repeats the element. */
type Xml = readonly (readonly [string, string | Xml])[];

export function renderQuery(node: NodeDescription, driver: DriverDescription, only?: CardDescription): string {
  const cards = (only === undefined ? node.cards : [only]).filter((card) => card.lost !== true && card.unknownToDriver !== true);
  const head: Xml = [
    ["timestamp", "Mon Nov 30 12:00:00 2026"],
    ["driver_version", driver.version],
    ["cuda_version", driver.cuda],
    ["attached_gpus", String(node.cards.filter((card) => card.unknownToDriver !== true).length)],
  ];
  const blocks = cards.map(
    (card) => `\t<gpu id="${smiBusId(card)}">\n${render(cardXml(card, node.cards.indexOf(card), driver), 2)}\t</gpu>\n`,
  );
  return [
    '<?xml version="1.0" ?>\n',
    `<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_${dtd(driver)}.dtd">\n`,
    "<nvidia_smi_log>\n",
    render(head, 1),
    ...blocks,
    "</nvidia_smi_log>\n",
  ].join("");
}

export function smiBusId(card: { readonly busId: string }): string {
  return `0000${card.busId.toUpperCase()}`;
}

/** The driver's branch, 550 of 550.127.08: what the forms go by. */
export function driverMajor(driver: DriverDescription): number {
  return Number(driver.version.split(".")[0]);
}

function dtd(driver: DriverDescription): string {
  return driverMajor(driver) >= 580 ? "v13" : driverMajor(driver) >= 525 ? "v12" : "v11";
}

function render(children: Xml, depth: number): string {
  const tabs = "\t".repeat(depth);
  return children
    .map(([tag, content]) =>
      typeof content === "string"
        ? `${tabs}<${tag}>${escapeXml(content)}</${tag}>\n`
        : `${tabs}<${tag}>\n${render(content, depth + 1)}${tabs}</${tag}>\n`,
    )
    .join("");
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function cardXml(card: CardDescription, minor: number, driver: DriverDescription): Xml {
  const version = driverMajor(driver);
  const inMig = card.mig?.current === "Enabled";
  return [
    ["product_name", card.name],
    ["persistence_mode", card.persistence === false ? "Disabled" : "Enabled"],
    [
      "mig_mode",
      [
        ["current_mig", card.mig?.current ?? "N/A"],
        ["pending_mig", card.mig?.pending ?? "N/A"],
      ],
    ],
    [
      "mig_devices",
      inMig && card.mig.instances.length > 0
        ? card.mig.instances.map((instance) => ["mig_device", instanceXml(instance, version)])
        : "None",
    ],
    ["serial", String(1_650_000_000_000 + minor + 1)],
    ["uuid", card.uuid],
    ["minor_number", String(minor)],
    ["gpu_virtualization_mode", [["virtualization_mode", "None"]]],
    ...(version >= 535 && version < 580
      ? [
          [
            "gpu_reset_status",
            [
              ["reset_required", card.recoveryAction === "Reset" ? "Yes" : "No"],
              ["drain_and_reset_recommended", "No"],
            ],
          ] as const,
        ]
      : []),
    ...(version >= 570 ? [["gpu_recovery_action", card.recoveryAction ?? "None"] as const] : []),
    ["pci", pciXml(card)],
    ["performance_state", "P0"],
    clockReasons(card, version),
    ["fb_memory_usage", memoryXml(card, version)],
    ["compute_mode", card.computeMode ?? "Default"],
    [
      "utilization",
      [
        ["gpu_util", inMig ? "N/A" : `${card.utilizationPct} %`],
        ["memory_util", inMig ? "N/A" : "0 %"],
      ],
    ],
    [
      "ecc_mode",
      [
        ["current_ecc", card.ecc === undefined ? "N/A" : "Enabled"],
        ["pending_ecc", card.ecc === undefined ? "N/A" : "Enabled"],
      ],
    ],
    [
      "ecc_errors",
      [
        ["volatile", eccXml(card.ecc?.volatileUncorrectable, version)],
        ["aggregate", eccXml(card.ecc?.aggregateUncorrectable, version)],
      ],
    ],
    [
      "retired_pages",
      [
        ["pending_blacklist", "N/A"],
        ["pending_retirement", "N/A"],
      ],
    ],
    ["remapped_rows", card.ecc === undefined || inMig ? "N/A" : remapXml(card)],
    ["temperature", [["gpu_temp", `${card.temperatureC} C`]]],
    powerXml(card, version),
    ...(version >= 525 ? [["fabric", fabricXml(card, version)] as const] : []),
    ...(card.supportedClocks === undefined ? [] : [["supported_clocks", clocksXml(card.supportedClocks)] as const]),
    ["processes", card.processes.map((process) => ["process_info", processXml(process)])],
  ];
}

function instanceXml(instance: InstanceDescription, version: number): Xml {
  return [
    ["index", String(instance.device)],
    ["gpu_instance_id", String(instance.gpuInstanceId)],
    ["compute_instance_id", String(instance.computeInstanceId)],
    [
      "device_attributes",
      [
        [
          "shared",
          [
            ["multiprocessor_count", String(instance.smCount)],
            ["copy_engine_count", "1"],
          ],
        ],
      ],
    ],
    ["ecc_error_count", [["volatile_count", [["sram_uncorrectable", "0"]]]]],
    [
      "fb_memory_usage",
      [
        ["total", `${instance.memoryMb} MiB`],
        ...(version >= 510 ? [["reserved", "0 MiB"] as const] : []),
        ["used", `${instance.usedMb} MiB`],
        ["free", `${instance.memoryMb - instance.usedMb} MiB`],
      ],
    ],
  ];
}

function pciXml(card: CardDescription): Xml {
  const id = smiBusId(card);
  return [
    ["pci_bus", id.slice(9, 11)],
    ["pci_device", id.slice(12, 14)],
    ["pci_domain", id.slice(4, 8)],
    ["pci_bus_id", id],
    [
      "pci_gpu_link_info",
      [
        [
          "pcie_gen",
          [
            ["max_link_gen", "5"],
            ["current_link_gen", "5"],
          ],
        ],
        [
          "link_widths",
          [
            ["max_link_width", "16x"],
            ["current_link_width", `${card.linkWidth ?? 16}x`],
          ],
        ],
      ],
    ],
  ];
}

function clockReasons(card: CardDescription, version: number): readonly [string, Xml] {
  const name = version >= 535 ? "clocks_event_reason" : "clocks_throttle_reason";
  const active = (on: boolean | undefined): string => (on === true ? "Active" : "Not Active");
  const slowed = card.hwThermal === true || card.hwPowerBrake === true;
  return [
    `${name}s`,
    [
      [`${name}_gpu_idle`, active(card.utilizationPct === 0 && !slowed)],
      [`${name}_sw_power_cap`, "Not Active"],
      [`${name}_hw_slowdown`, active(slowed)],
      [`${name}_hw_thermal_slowdown`, active(card.hwThermal)],
      [`${name}_hw_power_brake_slowdown`, active(card.hwPowerBrake)],
      [`${name}_sw_thermal_slowdown`, "Not Active"],
    ],
  ];
}

/** `reserved` came with 510; before it, used and free make up the total. */
function memoryXml(card: CardDescription, version: number): Xml {
  const reserved: Xml = version >= 510 ? [["reserved", `${card.reservedMb} MiB`]] : [];
  const free = card.memoryMb - card.usedMb - (version >= 510 ? card.reservedMb : 0);
  return [["total", `${card.memoryMb} MiB`], ...reserved, ["used", `${card.usedMb} MiB`], ["free", `${free} MiB`]];
}

function eccXml(uncorrectable: number | undefined, version: number): Xml {
  const count = (value: number): string => (uncorrectable === undefined ? "N/A" : String(value));
  const sram: Xml =
    version >= 550
      ? [
          ["sram_uncorrectable_parity", count(0)],
          ["sram_uncorrectable_secded", count(0)],
        ]
      : [["sram_uncorrectable", count(0)]];
  return [["sram_correctable", count(0)], ...sram, ["dram_correctable", count(0)], ["dram_uncorrectable", count(uncorrectable ?? 0)]];
}

function remapXml(card: CardDescription): Xml {
  return [
    ["remapped_row_corr", "0"],
    ["remapped_row_unc", card.remapPending === true || card.remapFailure === true ? "1" : "0"],
    ["remapped_row_pending", card.remapPending === true ? "Yes" : "No"],
    ["remapped_row_failure", card.remapFailure === true ? "Yes" : "No"],
  ];
}

function powerXml(card: CardDescription, version: number): readonly [string, Xml] {
  const draw = `${card.powerW.toFixed(2)} W`;
  const limit = `${card.powerLimitW.toFixed(2)} W`;
  if (version >= 570)
    return [
      "gpu_power_readings",
      [
        ["average_power_draw", draw],
        ["instant_power_draw", draw],
        ["current_power_limit", limit],
        ["requested_power_limit", limit],
      ],
    ];
  if (version >= 535)
    return [
      "gpu_power_readings",
      [
        ["power_draw", draw],
        ["current_power_limit", limit],
        ["requested_power_limit", limit],
      ],
    ];
  return [
    "power_readings",
    [
      ["power_draw", draw],
      ["power_limit", limit],
      ["enforced_power_limit", limit],
    ],
  ];
}

function fabricXml(card: CardDescription, version: number): Xml {
  const { fabric } = card;
  const completed = fabric?.state === "Completed";
  const ids: Xml =
    version >= 570
      ? [
          ["cliqueId", completed ? String(fabric.cliqueId) : "N/A"],
          ["clusterUuid", completed ? fabric.clusterUuid : "N/A"],
          ["health", fabricHealthXml(fabric?.health, version)],
        ]
      : [];
  return [["state", fabric?.state ?? "N/A"], ["status", fabric?.status ?? "N/A"], ...ids];
}

/** The summary and the configuration came with 580. */
function fabricHealthXml(health: FabricHealthDescription | undefined, version: number): Xml {
  const flag = (value: boolean | undefined): string => (value === undefined ? "N/A" : value ? "True" : "False");
  return [
    ...(version >= 580 ? [["summary", health?.summary ?? "N/A"] as const] : []),
    ["bandwidth", health?.bandwidth ?? "N/A"],
    ["route_recovery_in_progress", flag(health?.routeRecovery)],
    ["route_unhealthy", flag(health?.routeUnhealthy)],
    ["access_timeout_recovery", flag(health?.accessTimeoutRecovery)],
    ...(version >= 580 ? [["incorrect_configuration", health?.incorrectConfiguration ?? "N/A"] as const] : []),
  ];
}

function clocksXml(clocks: readonly SupportedClocks[]): Xml {
  return clocks.map(({ memoryMhz, graphicsMhz }) => [
    "supported_mem_clock",
    [["value", `${memoryMhz} MHz`], ...graphicsMhz.map((clock) => ["supported_graphics_clock", `${clock} MHz`] as const)],
  ]);
}

function processXml(process: ProcessDescription): Xml {
  return [
    ["gpu_instance_id", process.gpuInstanceId === undefined ? "N/A" : String(process.gpuInstanceId)],
    ["compute_instance_id", process.computeInstanceId === undefined ? "N/A" : String(process.computeInstanceId)],
    ["pid", String(process.pid)],
    ["type", process.type],
    ["process_name", process.name],
    ["used_memory", `${process.memoryMb} MiB`],
  ];
}
