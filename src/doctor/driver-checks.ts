/** Checks on NVIDIA's driver: is it there, is it one piece, does it answer. */

import { busCards, cardsOf, nameOf, noCards, perCard, selector } from "./cards.ts";
import type { Check, Verdict } from "./check.ts";
import { type Facts, known, whyUnread } from "./facts.ts";
import { lastDriverLine, message } from "./kernel-log.ts";
import { ANSWERING, count, evidence, fix, ok, skipped, unknown } from "./verdict.ts";

export const driverChecks: readonly Check[] = [
  {
    id: "driver-loaded",
    group: "driver",
    severity: "block",
    depends_on: ["driver-nouveau", "driver-secure-boot"],
    title: "the NVIDIA kernel module is loaded where there are cards",
    explain:
      "Cards on the PCI bus are of no use before the nvidia kernel module is loaded: nvidia-smi fails and no engine finds a device. Read from the PCI list, /proc/driver/nvidia and /proc/modules. Usual causes: the driver was never installed, a new kernel came without a module built for it, or the module was refused; the first kernel log line that says why is shown.",
    judge: judgeLoaded,
  },
  {
    id: "driver-nouveau",
    group: "driver",
    severity: "block",
    depends_on: [],
    title: "no card is held by nouveau",
    explain:
      "nouveau is the kernel's own driver for NVIDIA cards. It cannot run CUDA, and while it holds a card the NVIDIA module cannot have it. Read from the driver link of each card under /sys/bus/pci/devices.",
    judge: judgeNouveau,
  },
  {
    id: "driver-secure-boot",
    group: "driver",
    severity: "block",
    depends_on: [],
    title: "Secure Boot lets the NVIDIA module in",
    explain:
      "With UEFI Secure Boot the kernel loads only modules signed with a key that the firmware or the machine's owner list holds. A module built on the machine is signed with a key of its own, which has to be enrolled once. Read from the SecureBoot variable and from the kernel log.",
    judge: judgeSecureBoot,
  },
  {
    id: "driver-library-mismatch",
    group: "driver",
    severity: "block",
    depends_on: ["driver-nouveau", "driver-secure-boot", "driver-loaded"],
    title: "kernel module and driver library have one version",
    explain:
      "The user-space library and the loaded module must be of exactly one version. After a package upgrade without a reboot the files are new and the module is old: running engines go on, every new GPU process fails. Read from /proc/driver/nvidia/version, the file that libnvidia-ml.so.1 points at, and what nvidia-smi says.",
    judge: judgeMismatch,
  },
  {
    id: "driver-upgrade-pending",
    group: "driver",
    severity: "degrade",
    depends_on: ["driver-nouveau", "driver-secure-boot", "driver-loaded", "driver-library-mismatch"],
    title: "the installed module is the loaded one, and the next kernel has one",
    explain:
      "A module file of another version on disk means that an upgrade waits for a reboot: a reload of the module would break what runs. A newest kernel without any NVIDIA module means that the next reboot loses all cards. Read with modinfo for the running and the newest installed kernel.",
    judge: judgeUpgrade,
  },
  {
    id: "driver-device-nodes",
    group: "driver",
    severity: "block",
    depends_on: ["driver-nouveau", "driver-secure-boot", "driver-loaded"],
    title: "the device nodes of control, unified memory and each card exist",
    explain:
      "Programs reach cards through /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidiaN. The kernel module does not make them: nvidia-modprobe or udev does, and after a reboot without a desktop they can be missing until root has used a card once. N is the card's minor number, which is not its index. Only existence is judged: opening a node would wake the card.",
    judge: judgeNodes,
  },
  {
    id: "driver-query-hung",
    group: "driver",
    severity: "block",
    depends_on: [],
    title: "the driver answers",
    explain:
      "When a card is lost or the driver waits in the kernel, nvidia-smi and every CUDA call hang, and a process in that state cannot be ended by anything but a reboot. No new query is started while one of an earlier round still hangs. Read from our own calls and their time limit; processes in uninterruptible sleep and the driver's last kernel message are shown.",
    judge: judgeHung,
  },
  {
    id: "driver-query-slow",
    group: "driver",
    severity: "advise",
    depends_on: ["driver-query-hung"],
    title: "a driver query takes less than 3 s",
    explain:
      "Without persistence the driver sets every card up anew for each client, up to 3 s each; with 8 cards half a minute. Engines start as much slower. Read from the time that our own query took.",
    judge: judgeSlow,
  },
  {
    id: "driver-persistence",
    group: "driver",
    severity: "advise",
    depends_on: ANSWERING,
    title: "persistence is on for every card",
    explain:
      "With persistence off the driver lets go of a card when its last client ends: settings such as power limits are lost and the next start is slow. Read from nvidia-smi, persistence_mode.",
    judge: judgePersistence,
  },
];

function isLoaded(facts: Facts): boolean {
  return (
    facts.proc !== undefined ||
    facts.nvidia.source === "nvidia-smi" ||
    (known(facts.modules)?.includes("nvidia") ?? false) ||
    facts.nvidia.calls.some((call) => call.outcome === "hung" || call.failure === "library-mismatch")
  );
}

function judgeLoaded(facts: Facts): readonly Verdict[] {
  if (isLoaded(facts)) {
    const version = facts.proc?.driverVersion ?? facts.inventory.driver_version;
    return [ok(version === undefined ? "the module is loaded" : `module ${version} is loaded`)];
  }
  const cards = busCards(facts);
  const saysNone = facts.nvidia.calls.some((call) => call.failure === "no-driver");
  if (cards.length === 0 && !saysNone) {
    return [facts.pci.kind === "refused" ? unknown(facts.pci.why) : skipped("no NVIDIA card on this node")];
  }
  const cause = (known(facts.kernelLog)?.lines ?? []).find((line) => /NVRM|nvidia.*(?:fail|error|unable)|key was rejected/i.test(line));
  const said = facts.nvidia.calls.find((call) => call.text !== undefined);
  const tools = said !== undefined || facts.nvidia.source !== "none";
  const where = cards.length === 0 ? "NVIDIA's tools are here" : `${count(cards.length, "NVIDIA card")} on the PCI bus`;
  return [
    {
      result: "problem",
      message: `${where} but no driver is loaded`,
      evidence: [
        evidence("/proc/driver/nvidia/version", "absent", "the version of the loaded module"),
        ...(said?.text === undefined ? [] : [evidence(`nvidia-smi ${said.args}`, said.text)]),
        ...(cause === undefined ? [] : [evidence("kernel log", message(cause))]),
      ],
      fix: tools
        ? [
            fix("load the module", "modprobe nvidia", ["root"], true),
            fix(
              "if it is not found, build or install it for the running kernel, then look again",
              "dkms status && dmesg | grep -i nvidia",
              ["root"],
            ),
          ]
        : [fix("install NVIDIA's data-centre driver for this distribution, then load it", "modprobe nvidia", ["root"])],
    },
  ];
}

function judgeNouveau(facts: Facts): readonly Verdict[] {
  const cards = busCards(facts);
  if (facts.pci.kind === "refused") return [unknown(facts.pci.why)];
  if (cards.length === 0) return [skipped("no NVIDIA card on the PCI bus")];
  const held = cards.filter((card) => card.driver === "nouveau");
  if (held.length === 0) return [ok("no card is held by nouveau")];
  return held.map((card) => ({
    result: "problem" as const,
    subject: { kind: "gpu" as const, pci_bus_id: card.busId },
    message: `card ${card.busId} is held by nouveau`,
    evidence: [evidence(`/sys/bus/pci/devices/${card.busId}/driver`, "nouveau", "nvidia")],
    fix: [
      fix(
        "forbid nouveau, rebuild the initial ramdisk, reboot",
        "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' > /etc/modprobe.d/blacklist-nouveau.conf && (update-initramfs -u || dracut --force)",
        ["root", "reboot"],
      ),
    ],
  }));
}

function judgeSecureBoot(facts: Facts): readonly Verdict[] {
  const cards = busCards(facts);
  if (cards.length === 0) return [skipped("no NVIDIA card on the PCI bus")];
  if (isLoaded(facts)) return [ok("the module is loaded")];
  const secure = known(facts.secureBoot);
  const line = (known(facts.kernelLog)?.lines ?? []).find((one) => /key was rejected/i.test(one));
  if (secure === true && line !== undefined) {
    return [
      {
        result: "problem",
        message: "Secure Boot rejects the unsigned NVIDIA module",
        evidence: [evidence("EFI variable SecureBoot", "on"), evidence("kernel log", message(line))],
        fix: [
          fix(
            "enrol the key that the module is signed with, reboot and confirm in the firmware's screen",
            "mokutil --import /var/lib/dkms/mok.pub",
            ["root", "reboot", "hands"],
          ),
        ],
      },
    ];
  }
  if (facts.secureBoot.kind === "refused") return [unknown(facts.secureBoot.why)];
  return [ok(secure === true ? "Secure Boot is on and has rejected no module" : "Secure Boot is off")];
}

function judgeMismatch(facts: Facts): readonly Verdict[] {
  if (!isLoaded(facts)) return [noCards(facts)];
  const said = facts.nvidia.calls.find((call) => call.failure === "library-mismatch");
  const kernel = facts.proc?.driverVersion;
  const library = known(facts.libraryVersion) ?? /NVML library version: ?([\d.]+\d)/i.exec(said?.text ?? "")?.[1];
  if (said !== undefined || (kernel !== undefined && library !== undefined && kernel !== library)) {
    return [
      {
        result: "problem",
        message: `kernel driver ${kernel ?? "-"}, library ${library ?? "-"}: every new GPU process will fail`,
        evidence: [
          evidence("/proc/driver/nvidia/version", kernel ?? "not readable", library),
          evidence("libnvidia-ml.so.1", library ?? "not found", kernel),
          ...(said?.text === undefined ? [] : [evidence(`nvidia-smi ${said.args}`, said.text)]),
        ],
        fix: [
          fix("drain the node and reboot it, so that the new module is loaded", drainAndReboot(facts), ["root", "reboot"]),
          fix("keep the driver's packages from being upgraded by themselves", "apt-mark hold 'nvidia-*' 'libnvidia-*'", ["root"], true),
        ],
      },
    ];
  }
  if (facts.nvidia.source === "nvidia-smi") return [ok(kernel === undefined ? "the driver answers" : `both are ${kernel}`)];
  return [
    unknown(
      `cannot be compared: ${library === undefined ? whyUnread(facts.libraryVersion, "libnvidia-ml.so.1") : "the module says no version"}`,
    ),
  ];
}

function drainAndReboot(facts: Facts): string {
  return `llmgw ctl drain ${facts.inventory.hostname ?? "NODE"} && reboot`;
}

function judgeUpgrade(facts: Facts): readonly Verdict[] {
  if (!isLoaded(facts)) return [noCards(facts)];
  const files = known(facts.moduleFiles);
  if (files === undefined)
    return [unknown(`the module file is not known: ${whyUnread(facts.moduleFiles, "modinfo, or the module file,")}`)];
  const loaded = facts.proc?.driverVersion ?? facts.inventory.driver_version;
  const verdicts: Verdict[] = [];
  const current = files.find((file) => file.running);
  if (loaded !== undefined && current?.version !== undefined && current.version !== loaded) {
    verdicts.push({
      result: "problem",
      message: `an upgrade to ${current.version} is installed but ${loaded} is running: the next engine start may fail`,
      evidence: [evidence("modinfo -F version nvidia", current.version, loaded), evidence("/proc/driver/nvidia/version", loaded)],
      fix: [
        fix("plan a drain and a reboot", drainAndReboot(facts), ["root", "reboot"]),
        fix("keep the driver out of automatic upgrades", "apt-mark hold 'nvidia-*' 'libnvidia-*'", ["root"], true),
      ],
    });
  }
  const next = files.find((file) => !file.running);
  if (next !== undefined && next.version === undefined) {
    verdicts.push({
      result: "problem",
      message: `the newest kernel ${next.kernel} has no NVIDIA module: the next reboot will lose all cards`,
      evidence: [evidence(`modinfo -k ${next.kernel} -F version nvidia`, "not found", loaded)],
      fix: [fix("build or install the module for that kernel before rebooting", `dkms autoinstall -k ${next.kernel}`, ["root"], true)],
    });
  }
  return verdicts.length > 0 ? verdicts : [ok(`module file ${current?.version ?? "-"} is the loaded one`)];
}

function judgeNodes(facts: Facts): readonly Verdict[] {
  const cards = cardsOf(facts).filter((card) => card.minor !== undefined && card.raw?.lost !== true && card.lostReason === undefined);
  if (cards.length === 0) return [noCards(facts)];
  const nodes = known(facts.deviceNodes);
  if (nodes === undefined) return [unknown(whyUnread(facts.deviceNodes, "/dev"))];
  if (nodes.includes("dxg")) return [skipped("the cards are reached through Windows (/dev/dxg)")];
  // A host's /dev has null at least; a recording that kept other nodes only says nothing about these.
  if (!nodes.some((name) => /^(null|nvidiactl|nvidia-uvm|nvidia\d+)$/.test(name))) return [unknown("/dev was recorded in part only")];
  const wanted = ["nvidiactl", "nvidia-uvm", ...cards.map((card) => `nvidia${card.minor}`)];
  const missing = wanted.filter((name) => !nodes.includes(name));
  const closed = wanted.filter((name) => facts.closedNodes.includes(name));
  if (missing.length === 0 && closed.length > 0) {
    // Root opens all of them, and engines may run as another user than the one who looks.
    return [unknown(`needs root, or the engines' user: this one may not open ${closed.map((name) => `/dev/${name}`).join(", ")}`)];
  }
  if (missing.length === 0) return [ok(`${count(wanted.length, "device node")} present`)];
  return missing.map((name) => ({
    result: "problem" as const,
    subject: { kind: "path" as const, path: `/dev/${name}` },
    message: `/dev/${name} is missing${
      /\d$/.test(name)
        ? `: ${cards
            .filter((card) => `nvidia${card.minor}` === name)
            .map(nameOf)
            .join(", ")} cannot be used`
        : ": no CUDA program can start"
    }`,
    evidence: [evidence("/dev", `no ${name}`, name)],
    fix: [
      fix(
        "make the node; nvidia-persistenced or a udev rule does it at boot",
        name === "nvidia-uvm" ? "nvidia-modprobe -c0 -u" : `nvidia-modprobe -c ${/^nvidia(\d+)$/.exec(name)?.[1] ?? 255}`,
        ["root"],
        true,
      ),
    ],
  }));
}

function judgeHung(facts: Facts): readonly Verdict[] {
  const { calls } = facts.nvidia;
  const hung = calls.filter((call) => call.outcome === "hung");
  if (hung.length === 0) {
    if (calls.every((call) => call.outcome === "absent")) return [skipped("no NVIDIA driver tools here")];
    return [ok("the driver answers")];
  }
  const last = lastDriverLine(facts);
  const pid = /pid (\d+)/.exec(hung.map((call) => call.text ?? "").join(" "))?.[1];
  const stuck = facts.stuck.slice(0, 8);
  return [
    {
      result: "problem",
      message: `the driver does not answer${pid === undefined ? "" : ` (pid ${pid} is stuck)`}${last === undefined ? "" : `; its last kernel message: ${last}`}`,
      evidence: [
        ...hung.map((call) => evidence(`nvidia-smi ${call.args}`, call.text ?? "no answer", "an answer")),
        ...stuck.map((process) =>
          evidence(`/proc/${process.pid}/stat`, `D: ${process.command ?? "-"}`, "no process in uninterruptible sleep"),
        ),
      ],
      fix: [
        fix("a process that waits in the driver cannot be ended: reboot. No engine is started here until then", drainAndReboot(facts), [
          "root",
          "reboot",
        ]),
        ...(last === undefined ? [fix("look at the driver's own messages first", "journalctl -k -b | grep NVRM", ["root"], true)] : []),
      ],
    },
  ];
}

const SLOW_MS = 3_000;

function judgeSlow(facts: Facts): readonly Verdict[] {
  const answered = facts.nvidia.calls.filter((call) => call.outcome === "answered");
  if (answered.length === 0) return [noCards(facts)];
  const slowest = answered.reduce((worst, call) => (call.tookMs > worst.tookMs ? call : worst));
  if (slowest.tookMs < SLOW_MS) return [ok("queries take under 3 s")];
  return [
    {
      result: "problem",
      message: `one query took ${(slowest.tookMs / 1000).toFixed(1)} s`,
      evidence: [evidence(`nvidia-smi ${slowest.args}`, `${Math.round(slowest.tookMs)} ms`, `under ${SLOW_MS} ms`)],
      fix: [
        fix(
          "turn on the persistence daemon: cards stay set up between clients",
          "systemctl enable --now nvidia-persistenced",
          ["root"],
          true,
        ),
      ],
    },
  ];
}

function judgePersistence(facts: Facts): readonly Verdict[] {
  return perCard(facts, (card, raw) => {
    if (raw.persistenceMode === undefined) return skipped(`${nameOf(card)} says nothing about persistence`);
    if (raw.persistenceMode === "enabled") return ok("persistence is on");
    return {
      result: "problem",
      message: `${nameOf(card)}: persistence is off: slow first start, settings lost when idle`,
      evidence: [evidence("nvidia-smi persistence_mode", "Disabled", "Enabled")],
      fix: [
        fix("turn on the persistence daemon", "systemctl enable --now nvidia-persistenced", ["root"], true),
        fix("or only until the next reboot", `nvidia-smi -pm 1 -i ${selector(card)}`, ["root"], true),
      ],
    };
  });
}
