/** Checks on each card: is it there, is it whole, is anything slowing it down or holding it. */
import type { RawCard } from "../discovery/nvidia-smi/query.ts";
import type { Severity, Subject } from "../domain/finding.ts";
import { compact } from "../lib/compact.ts";
import { type CardFacts, cardsOf, inMig, nameOf, noCards, perCard, selector, subjectOf } from "./cards.ts";
import type { Check, Verdict } from "./check.ts";
import { type Facts, known, whyUnread } from "./facts.ts";
import { fallenCards, xidEvents } from "./kernel-log.ts";
import { judgeForeign, judgeOrphaned } from "./process-checks.ts";
import { ANSWERING, DRIVER, drain, drainAndReset, evidence, fix, ok, skipped, unknown } from "./verdict.ts";
import { xidMeaning } from "./xid-table.ts";

/** Checks whose problem is also one of the inventory's reasons. */
const EXPLAINING = [
  ...ANSWERING,
  "gpu-recovery-action",
  "gpu-ecc-uncorrected",
  "gpu-row-remap-pending",
  "gpu-row-remap-failed",
  "gpu-thermal",
  "gpu-power-brake",
  "gpu-compute-mode",
  "mig-pending-change",
  "mig-enabled-empty",
  "nvlink-fabric-manager",
  "nvlink-fabric",
];

export const gpuChecks: readonly Check[] = [
  {
    id: "gpu-missing",
    group: "gpu",
    severity: "block",
    depends_on: [...DRIVER, "gpu-off-bus"],
    title: "every card on the bus is known to the driver",
    explain:
      "A card that the PCI bus lists and the driver does not has failed to come up: its kernel messages say why. Where an agent runs, a card that it once saw and that the bus does not list any more is missed as well. Read from the PCI list, the driver's own list in /proc, nvidia-smi and the agent's cards.json. A card that is handed to a virtual machine (vfio) is not ours and not missed.",
    judge: judgeMissing,
  },
  {
    id: "gpu-off-bus",
    group: "gpu",
    severity: "block",
    depends_on: ["driver-nouveau", "driver-secure-boot", "driver-loaded", "driver-library-mismatch"],
    title: "every card answers on the bus",
    explain:
      "A card that has fallen off the bus answers with all ones to everything. Running work on it is lost, and nvidia-smi may fail or hang for all cards. Read from the first bytes of its PCI configuration, the kernel log (fallen off the bus, Xid 79) and what nvidia-smi says of it. Usually power, heat, a riser or a seat: a warm reboot often does not bring it back.",
    judge: judgeOffBus,
  },
  {
    id: "gpu-recovery-action",
    group: "gpu",
    severity: "block",
    depends_on: ANSWERING,
    title: "the driver asks for no recovery",
    explain:
      "Newer drivers say what a card needs after a fault: a reset, a reboot of the node, or to be drained first. Read from nvidia-smi, gpu_recovery_action, and reset_required of older drivers.",
    judge: (facts) => perCard(facts, (card, raw) => judgeRecovery(facts, card, raw)),
  },
  {
    id: "gpu-xid",
    group: "gpu",
    severity: "block",
    depends_on: ANSWERING,
    title: "no Xid since boot that speaks of the hardware",
    explain:
      "The driver reports faults as numbers in the kernel log. 13, 31, 43, 45 and 68 are faults of programs (advise); 63, 92 and 94 are contained or warnings (degrade); 48, 64, 74, 79, 95, 109, 119, 120, 140, 143 and unknown ones that name a reset block the card. `doctor.xids` in agent.yaml says otherwise where that is wanted. Needs the kernel log, which only root and some groups may read.",
    judge: judgeXid,
  },
  {
    id: "gpu-ecc-uncorrected",
    group: "gpu",
    severity: "degrade",
    depends_on: ANSWERING,
    title: "no uncorrected memory errors since the last reset",
    explain:
      "Uncorrected errors since the last reset mean that some result may be wrong and that rows wait to be remapped. Counts over the card's whole life are history and not judged. When the threshold of SRAM errors is exceeded the card should be replaced. Read from nvidia-smi, ecc_errors.volatile and sram_threshold_exceeded.",
    judge: (facts) => perCard(facts, (card, raw) => judgeEcc(facts, card, raw)),
  },
  {
    id: "gpu-row-remap-pending",
    group: "gpu",
    severity: "degrade",
    depends_on: ANSWERING,
    title: "no memory repair waits for a reset",
    explain:
      "Cards replace faulty memory rows by spare ones, older cards retire pages; both happen at the next reset. Until then the faulty place is still in use. Read from nvidia-smi, remapped_rows.pending or retired_pages.pending.",
    judge: (facts) => perCard(facts, (card, raw) => judgeRemapPending(facts, card, raw)),
  },
  {
    id: "gpu-row-remap-failed",
    group: "gpu",
    severity: "block",
    depends_on: ANSWERING,
    title: "memory repair has not failed",
    explain:
      "When no spare row is left the repair fails and the card can return wrong data: it has to be replaced. Read from nvidia-smi, remapped_rows.failure.",
    judge: (facts) => perCard(facts, (card, raw) => judgeRemapFailed(facts, card, raw)),
  },
  {
    id: "gpu-thermal",
    group: "gpu",
    severity: "degrade",
    depends_on: ANSWERING,
    title: "the hardware does not slow the card down for heat",
    explain:
      "The hardware halves the clocks when a card is too hot. Software slowdown near the target temperature is an everyday state under load and not judged. Read from nvidia-smi, hw_thermal_slowdown and hw_slowdown.",
    judge: (facts) => perCard(facts, judgeThermal),
  },
  {
    id: "gpu-power-brake",
    group: "gpu",
    severity: "degrade",
    depends_on: ANSWERING,
    title: "the server feeds the card",
    explain:
      "The power brake is a signal from the server to its cards: a power supply failed or a power cap is reached. Read from nvidia-smi, hw_power_brake_slowdown.",
    judge: (facts) => perCard(facts, judgeBrake),
  },
  {
    id: "gpu-pcie-width",
    group: "gpu",
    severity: "degrade",
    depends_on: ANSWERING,
    title: "the link has all its lanes",
    explain:
      "Fewer lanes than card and slot allow, or than cards of the same class beside it have, come from a bad seat, riser or BIOS setting; loading models and traffic between cards get as much slower. The generation is judged only while the card is busy, since it drops at idle. Read from nvidia-smi, link_widths and pcie_gen, and from max_link_width of the port above the card.",
    judge: (facts) => perCard(facts, (card, raw) => judgeWidth(facts, card, raw)),
  },
  {
    id: "gpu-compute-mode",
    group: "gpu",
    severity: "block",
    depends_on: ANSWERING,
    title: "programs may share the card",
    explain:
      "Compute mode Prohibited lets no CUDA program start. Exclusive_Process lets one process in: helper processes of an engine may be refused. The mode is lost when the driver lets go of the card. Read from nvidia-smi, compute_mode.",
    judge: (facts) => perCard(facts, judgeComputeMode),
  },
  {
    id: "gpu-foreign-process",
    group: "gpu",
    severity: "degrade",
    depends_on: ANSWERING,
    title: "only engines compute on the card",
    explain:
      "Another program that computes on a card takes memory that placement counts on, and an engine that fits today fails tomorrow. Processes that draw a screen are left out, and so is anything that is one of the engines. Read from nvidia-smi, processes, and the command lines in /proc.",
    judge: judgeForeign,
  },
  {
    id: "gpu-memory-orphaned",
    group: "gpu",
    severity: "degrade",
    depends_on: ANSWERING,
    title: "no memory is held by nobody",
    explain:
      "Memory that is in use on an idle card although no process is listed belongs to a worker that died badly, or to a process that cannot be seen from here. Up to 600 MiB are the driver's own. In a container the processes of others are not visible, so there it cannot be told. Read from nvidia-smi, fb_memory_usage and processes.",
    judge: judgeOrphaned,
  },
  {
    id: "gpu-not-offered",
    group: "gpu",
    severity: "block",
    depends_on: EXPLAINING,
    title: "every card and instance is offered for placement",
    explain:
      "What the inventory calls unhealthy or unusable gets no new work. Most of its reasons have a check of their own, and then this one is skipped for that card; it stands for the rest, such as instances under a driver too old to offer them. Read from the inventory.",
    judge: judgeOffered,
  },
];

function judgeMissing(facts: Facts): readonly Verdict[] {
  const cards = cardsOf(facts);
  if (cards.length === 0) return [...goneCards(facts), noCards(facts)];
  const asked = facts.nvidia.list !== undefined || facts.nvidia.query !== undefined;
  if (!asked) return [unknown("the driver's list of cards could not be read")];
  return [...goneCards(facts), ...cards.map((card) => judgeKnownToDriver(card))];
}

/** Cards that an agent saw here once and that the bus does not list any more. */
function goneCards(facts: Facts): readonly Verdict[] {
  const bus = known(facts.pci);
  if (bus === undefined || facts.remembered === undefined) return [];
  const { file, cards } = facts.remembered;
  const gone = cards.filter((card) => !bus.some((one) => one.busId === card.pci_bus_id));
  return gone.map((card) => ({
    result: "problem" as const,
    subject: { kind: "gpu" as const, pci_bus_id: card.pci_bus_id },
    message: `card ${card.pci_bus_id} (${card.class ?? card.name}) was here on ${card.last_seen_at.slice(0, 10)} and is gone from the bus`,
    evidence: [evidence("/sys/bus/pci/devices", `no ${card.pci_bus_id}`, "present, as an agent saw it")],
    fix: [
      fix(
        "look for what the kernel says of it, then cold-start the machine; if it stays away, have it reseated",
        `journalctl -k -b | grep -i ${card.pci_bus_id}`,
        ["hands"],
      ),
      fix("if it was taken out on purpose, have it forgotten", `rm ${file} && systemctl reload llmgw-agent`, ["root"], true),
    ],
  }));
}

function judgeKnownToDriver(card: CardFacts): Verdict {
  const subject = subjectOf(card);
  const seen = card.raw !== undefined || card.listed !== undefined || card.lostReason !== undefined;
  if (seen || card.leftAlone) return ok(`${nameOf(card)} is known to bus and driver`, subject);
  return {
    result: "problem",
    subject,
    message: `${nameOf(card)}${card.name === undefined ? "" : ` (${card.name})`} is on the bus but not in the driver`,
    evidence: [
      evidence(`/sys/bus/pci/devices/${card.busId ?? "-"}`, `present, driver ${card.pci?.driver ?? "none"}`),
      evidence("nvidia-smi -L", "not listed", "listed"),
    ],
    fix: [
      fix("look for the reason in the kernel log", `journalctl -k -b | grep -e NVRM -e ${card.busId ?? "nvidia"}`, ["root"], true),
      fix("then a cold power cycle; if it stays away, reseat the card", undefined, ["reboot", "hands"]),
    ],
  };
}

function judgeOffered(facts: Facts): readonly Verdict[] {
  const { gpus, unusable_cards: unusable } = facts.inventory;
  if (gpus.length === 0 && unusable.length === 0) return [noCards(facts)];
  const out = cardsOf(facts).filter((card) => card.leftAlone);
  const verdicts = gpus.map((gpu): Verdict => {
    const place = compact({ uuid: gpu.uuid, index: gpu.mig?.card ?? gpu.index, pci_bus_id: gpu.pci_bus_id });
    const subject: Subject = gpu.mig === undefined ? { kind: "gpu", ...place } : { kind: "instance", ...place, label: gpu.label };
    return gpu.health.ok ? ok(`${gpu.label} is offered`, subject) : notOffered(subject, gpu.label, gpu.health.problems);
  });
  return [
    ...verdicts,
    ...unusable.map((card): Verdict => {
      const subject: Subject = { kind: "gpu", ...compact({ uuid: card.uuid, index: card.index, pci_bus_id: card.pci_bus_id }) };
      const name = `card ${card.index ?? card.pci_bus_id ?? "-"}`;
      return out.some((one) => one.index === card.index) ? skipped(card.reason, subject) : notOffered(subject, name, [card.reason]);
    }),
  ];
}

function notOffered(subject: Subject, name: string, reasons: readonly string[]): Verdict {
  if (reasons.every((reason) => reason.startsWith("its state is not known"))) return unknown(`${name}: ${reasons.join("; ")}`, subject);
  return {
    result: "problem",
    subject,
    message: `${name} is not offered: ${reasons.join("; ")}`,
    evidence: reasons.map((reason) => evidence("llmgw inventory", reason)),
    fix: [fix("look at what the inventory shows of it", "llmgw inventory", [], true)],
  };
}

function judgeOffBus(facts: Facts): readonly Verdict[] {
  const cards = cardsOf(facts);
  if (cards.length === 0) return [noCards(facts)];
  const log = known(facts.kernelLog)?.lines ?? [];
  const fallen = [...fallenCards(log), ...xidEvents(log).flatMap((event) => (event.xid === 79 ? [event.busId] : []))];
  return cards.map((card): Verdict => {
    const subject = subjectOf(card);
    const answers = card.raw?.readable === true && !card.raw.lost;
    const gone = card.pci?.config === "ffffffff";
    const said = [card.lostReason, ...(card.raw?.errorTexts ?? [])].find((text) => text !== undefined && /lost|fallen off/i.test(text));
    const logged = card.busId !== undefined && fallen.includes(card.busId) && !answers;
    if (gone || card.raw?.lost === true || said !== undefined || logged) {
      return {
        result: "problem",
        subject,
        message: `${nameOf(card)}${card.index === undefined ? "" : ` (${card.busId ?? card.uuid ?? "-"})`} has fallen off the bus`,
        evidence: [
          ...(gone ? [evidence(`/sys/bus/pci/devices/${card.busId ?? "-"}/config`, "ff ff ff ff", "vendor and device")] : []),
          ...(said !== undefined
            ? [evidence("nvidia-smi", said)]
            : card.raw?.lost === true
              ? [evidence("nvidia-smi -q -x", "GPU is lost")]
              : []),
          ...(logged ? [evidence("kernel log", "fallen off the bus")] : []),
        ],
        fix: [
          fix("drain the node and power it off and on again; a warm reboot often does not bring the card back", drain(facts), ["reboot"]),
          fix("if it comes back without it: check its power cables, its riser and its seat", undefined, ["hands"]),
        ],
      };
    }
    if (card.pci?.config === undefined && !answers)
      return unknown(`${nameOf(card)}: neither its configuration nor the driver could be read`, subject);
    return ok(`${nameOf(card)} answers`, subject);
  });
}

function judgeRecovery(facts: Facts, card: CardFacts, raw: RawCard): Verdict {
  const action =
    raw.recoveryAction ?? (raw.resetRequired === true ? "reset" : raw.drainAndResetRecommended === true ? "drain and reset" : undefined);
  if (action === undefined || /^none$/i.test(action)) return ok("the driver asks for nothing");
  const onlyDrain = /drain/i.test(action);
  return {
    result: "problem",
    severity: onlyDrain ? "degrade" : "block",
    message: `${nameOf(card)}: the driver asks for: ${action}`,
    evidence: [evidence("nvidia-smi gpu_recovery_action", action, "None")],
    fix: /reboot/i.test(action)
      ? [fix("drain the node, then reboot it", `${drain(facts)} && reboot`, ["root", "reboot"])]
      : [drainAndReset(facts, selector(card))],
  };
}

function judgeXid(facts: Facts): readonly Verdict[] {
  const cards = cardsOf(facts);
  if (cards.length === 0) return [noCards(facts)];
  const log = known(facts.kernelLog);
  if (log === undefined) return [unknown(whyUnread(facts.kernelLog, "the kernel log"))];
  const given = facts.config.doctor?.xids ?? {};
  const events = xidEvents(log.lines).filter((event) => given[event.xid] !== "ignore");
  return cards.flatMap((card): readonly Verdict[] => {
    const own = events.filter((event) => event.busId === card.busId);
    if (own.length === 0) return [ok(`${nameOf(card)}: no Xid since boot`, subjectOf(card))];
    return [...new Set(own.map((event) => event.xid))].map((xid) => xidVerdict(facts, card, xid, own, log.command));
  });
}

function xidVerdict(facts: Facts, card: CardFacts, xid: number, own: ReturnType<typeof xidEvents>, command: string): Verdict {
  const same = own.filter((event) => event.xid === xid);
  const last = same.at(-1);
  const { meaning, severity } = xidMeaning(xid, last?.line ?? "", facts.config.doctor?.xids);
  const times = same.length === 1 ? "once" : `${same.length} times`;
  return {
    result: "problem",
    severity,
    subject: subjectOf(card),
    message: `Xid ${xid} (${meaning}) on ${nameOf(card)}, ${times}${last?.time === undefined ? "" : `, last ${last.time}`}`,
    evidence: [evidence(command, last?.line ?? "-", "no Xid of the hardware")],
    fix: xidFix(facts, card, severity),
  };
}

function xidFix(facts: Facts, card: CardFacts, severity: Severity) {
  switch (severity) {
    case "advise":
      return [fix("a program's fault: look at the log of the engine that ran at that time", undefined, [], true)];
    case "degrade":
      return [drainAndReset(facts, selector(card))];
    case "block":
      return [
        drainAndReset(facts, selector(card)),
        fix("if it comes back, run the vendor's diagnostic on the idle card and have it replaced", "dcgmi diag -r 3", [
          "root",
          "card-idle",
        ]),
      ];
    default:
      return severity satisfies never;
  }
}

function judgeEcc(facts: Facts, card: CardFacts, raw: RawCard): Verdict {
  const { volatileUncorrectable: errors, sramThresholdExceeded } = raw.ecc;
  if (sramThresholdExceeded === true) {
    return {
      result: "problem",
      severity: "block",
      message: `${nameOf(card)}: the threshold of uncorrected SRAM errors is exceeded`,
      evidence: [evidence("nvidia-smi ecc_errors.aggregate.sram_threshold_exceeded", "Yes", "No")],
      fix: [fix("take the card out of service and have it replaced", drain(facts), ["hands"])],
    };
  }
  if (errors === undefined) return skipped(`${nameOf(card)} counts no memory errors`);
  if (errors === 0) return ok("no uncorrected errors since the last reset");
  return {
    result: "problem",
    message: `${nameOf(card)}: uncorrected memory errors since reset: ${errors}`,
    evidence: [evidence("nvidia-smi ecc_errors.volatile", errors, "0")],
    fix: [drainAndReset(facts, selector(card))],
  };
}

function judgeRemapPending(facts: Facts, card: CardFacts, raw: RawCard): Verdict {
  const [rows, pages] = [raw.remappedRows?.pending, raw.retiredPagesPending];
  if (rows !== true && pages !== true) {
    return rows === undefined && pages === undefined ? skipped(`${nameOf(card)} says nothing about memory repair`) : ok("no repair waits");
  }
  return {
    result: "problem",
    message: `${nameOf(card)}: memory repair is waiting for a reset`,
    evidence: [evidence(rows === true ? "nvidia-smi remapped_rows.pending" : "nvidia-smi retired_pages.pending", "Yes", "No")],
    fix: [drainAndReset(facts, selector(card))],
  };
}

function judgeRemapFailed(facts: Facts, card: CardFacts, raw: RawCard): Verdict {
  const failed = raw.remappedRows?.failure;
  if (failed === undefined) return skipped(`${nameOf(card)} says nothing about memory repair`);
  if (!failed) return ok("no repair failed");
  return {
    result: "problem",
    message: `${nameOf(card)}: memory repair failed: the card can return wrong data`,
    evidence: [evidence("nvidia-smi remapped_rows.failure", "Yes", "No")],
    fix: [fix("take the card out of service and have it replaced", drain(facts), ["hands"])],
  };
}

function judgeThermal(card: CardFacts, raw: RawCard): Verdict {
  const { hwThermal, hwPowerBrake, hwSlowdown } = raw.clockReasons;
  const unnamed = hwSlowdown === true && hwThermal !== true && hwPowerBrake !== true;
  if (hwThermal === undefined && hwSlowdown === undefined) return skipped(`${nameOf(card)} says nothing about slowdown`);
  if (hwThermal !== true && !unnamed) return ok("not slowed by heat");
  const at = raw.temperatureC === undefined ? "" : ` at ${raw.temperatureC} C`;
  return {
    result: "problem",
    message: unnamed ? `${nameOf(card)}: slowed by the hardware${at}, without a named reason` : `${nameOf(card)}: slowed by heat${at}`,
    evidence: [
      evidence(unnamed ? "nvidia-smi hw_slowdown" : "nvidia-smi hw_thermal_slowdown", "Active", "Not Active"),
      ...(raw.temperatureC === undefined ? [] : [evidence("nvidia-smi gpu_temp", `${raw.temperatureC} C`)]),
    ],
    fix: [
      fix("check air flow, fans, filters and the card beside it", undefined, ["hands"]),
      fix("until then a lower power limit costs less than the slowdown", `nvidia-smi -q -d POWER -i ${selector(card)}`, [], true),
    ],
  };
}

function judgeBrake(card: CardFacts, raw: RawCard): Verdict {
  const brake = raw.clockReasons.hwPowerBrake;
  if (brake === undefined) return skipped(`${nameOf(card)} says nothing about the power brake`);
  if (!brake) return ok("no power brake");
  return {
    result: "problem",
    message: `${nameOf(card)}: external power brake: the server cannot feed the card`,
    evidence: [evidence("nvidia-smi hw_power_brake_slowdown", "Active", "Not Active")],
    fix: [
      fix(
        "check the power supplies and the power cap of the server's management controller",
        "ipmitool sdr type 'Power Supply'",
        ["root"],
        true,
      ),
    ],
  };
}

/** Above this a card is busy enough for its link to run at full speed. */
const BUSY_PCT = 50;

function judgeWidth(facts: Facts, card: CardFacts, raw: RawCard): Verdict {
  const { widthCurrent, widthMax, genCurrent, genMax } = raw.pcie;
  if (widthCurrent === undefined) return skipped(`${nameOf(card)} says nothing about its link`);
  const siblings = cardsOf(facts).flatMap((other) =>
    other !== card && other.class === card.class && other.busId !== card.busId ? (other.raw?.pcie.widthCurrent ?? []) : [],
  );
  // The card says how many lanes it has, not how many its slot gives it: a T4 in a cloud machine runs x8 of 16 for good.
  const slot = card.pci?.slotWidth;
  const usual = commonest(siblings);
  const wanted = Math.max(slot === undefined || widthMax === undefined ? 0 : Math.min(widthMax, slot), usual ?? 0);
  if (slot === undefined && usual === undefined && widthMax !== undefined && widthCurrent < widthMax) {
    return unknown(`${nameOf(card)}: link x${widthCurrent} of x${widthMax}; how many lanes its slot has cannot be read`);
  }
  if (widthCurrent < wanted) {
    return {
      result: "problem",
      message: `${nameOf(card)}: link x${widthCurrent} instead of x${wanted}`,
      evidence: [evidence("nvidia-smi link_widths.current_link_width", `${widthCurrent}x`, `${wanted}x`)],
      fix: [
        fix("drain the node, power it off, reseat the card or its riser; check bifurcation in the BIOS", drain(facts), ["hands", "reboot"]),
      ],
    };
  }
  const busy = (raw.utilizationPct ?? 0) >= BUSY_PCT;
  if (busy && genCurrent !== undefined && genMax !== undefined && genCurrent < genMax) {
    return {
      result: "problem",
      message: `${nameOf(card)}: link of generation ${genCurrent} instead of ${genMax} although the card is busy`,
      evidence: [evidence("nvidia-smi pcie_gen.current_link_gen", genCurrent, String(genMax))],
      fix: [fix("check the BIOS setting of the slot's speed; reseat the card or its riser", drain(facts), ["hands", "reboot"])],
    };
  }
  return ok(`link x${widthCurrent}`);
}

/** The value that more than half of them have. */
function commonest(values: readonly number[]): number | undefined {
  return values.find((value) => values.filter((other) => other === value).length * 2 > values.length);
}

function judgeComputeMode(card: CardFacts, raw: RawCard): Verdict {
  const mode = raw.computeMode;
  if (mode === undefined) return inMig(card) ? skipped(`${nameOf(card)} is in MIG mode`) : skipped(`${nameOf(card)} says no compute mode`);
  if (/^default$/i.test(mode)) return ok("compute mode is Default");
  const prohibited = /^prohibited$/i.test(mode);
  return {
    result: "problem",
    severity: prohibited ? "block" : "degrade",
    message: prohibited
      ? `${nameOf(card)}: compute mode is Prohibited: no CUDA program can start`
      : `${nameOf(card)}: compute mode is ${mode}: helpers of the engine may be refused`,
    evidence: [evidence("nvidia-smi compute_mode", mode, "Default")],
    fix: [fix("set it back", `nvidia-smi -c 0 -i ${selector(card)}`, ["root"], true)],
  };
}
