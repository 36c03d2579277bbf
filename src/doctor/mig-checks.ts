/** Checks on cards in MIG mode and on their instances. */

import type { Subject } from "../domain/finding.ts";
import type { Gpu } from "../domain/inventory.ts";
import { compact } from "../lib/compact.ts";
import { type CardFacts, cardsOf, inMig, nameOf, noCards, perCard, selector, subjectOf } from "./cards.ts";
import type { Check, Verdict } from "./check.ts";
import { type Facts, known, type PlacedModel, whyUnread } from "./facts.ts";
import { ANSWERING, count, drain, drainAndReset, evidence, fix, ok, skipped, unknown } from "./verdict.ts";

const NO_MODELS = "no models are placed here: this node has no assignment yet";

export const migChecks: readonly Check[] = [
  {
    id: "mig-pending-change",
    group: "mig",
    severity: "block",
    depends_on: ANSWERING,
    title: "MIG mode is what it will be after a reset",
    explain:
      "A change of MIG mode that waits for a reset turns a card into something else at the next one, and everything placed on it is lost then. It waits because the generation needs a reset, or because somebody held the card when it was changed. Read from nvidia-smi, mig_mode current and pending.",
    judge: (facts) => perCard(facts, (card) => judgePending(facts, card)),
  },
  {
    id: "mig-enabled-empty",
    group: "mig",
    severity: "block",
    depends_on: ANSWERING,
    title: "a card in MIG mode is carved",
    explain:
      "A card in MIG mode is no whole card any more, and without an instance it is nothing at all: CUDA finds no device. Instances do not survive a reboot, a reset or a reload of the driver; something has to carve them again. Read from nvidia-smi, mig_devices, and -L.",
    judge: (facts) => perCard(facts, judgeEmpty),
  },
  {
    id: "mig-instance-without-compute",
    group: "mig",
    severity: "block",
    depends_on: ANSWERING,
    title: "every GPU instance has a compute instance",
    explain:
      "A GPU instance is memory; what runs is a compute instance inside it. Without one the part of the card is taken and cannot be used, and nvidia-smi -L does not even show it. Read from the driver's capability tree under /proc/driver/nvidia/capabilities.",
    judge: judgeCompute,
  },
  {
    id: "mig-caps-access",
    group: "mig",
    severity: "block",
    depends_on: ANSWERING,
    title: "the capability nodes of every instance exist",
    explain:
      "A program reaches an instance through two device nodes under /dev/nvidia-caps, one for the GPU instance and one for the compute instance. The kernel module does not make them: nvidia-modprobe or udev does. Without them the instance is listed and every start on it fails. Numbers are read from /proc/driver/nvidia-caps/mig-minors.",
    judge: judgeAccess,
  },
  {
    id: "mig-model-spans-slices",
    group: "mig",
    severity: "block",
    depends_on: ANSWERING,
    title: "no model asks for several instances at once",
    explain:
      "Instances cannot reach each other's memory, not even on one card: a replica that asks for more than one of them cannot run. Several replicas on one instance each can. Read from the models that are placed here.",
    judge: judgeSpan,
  },
  {
    id: "mig-slice-too-small",
    group: "mig",
    severity: "block",
    depends_on: ANSWERING,
    title: "models fit into the instances they are placed on",
    explain:
      "The gigabytes in a profile's name are rounded up; what a program can use is less and differs by card and driver, so it is read from the card. Weights and the smallest cache must fit. Read from the models that are placed here and from nvidia-smi.",
    judge: judgeFit,
  },
];

function judgePending(facts: Facts, card: CardFacts): Verdict {
  const [current, pending] = [card.raw?.migCurrent, card.raw?.migPending];
  if (current === undefined || pending === undefined) return skipped(`${nameOf(card)} cannot have MIG instances`);
  if (current === pending) return ok(`MIG is ${current === "enabled" ? "on" : "off"} and stays so`);
  const holders = (card.raw?.processes ?? []).map((process) => `${process.name ?? "-"} (pid ${process.pid})`);
  return {
    result: "problem",
    message: `MIG will be ${pending === "enabled" ? "on" : "off"} after the next reset of ${nameOf(card)}`,
    evidence: [
      evidence("nvidia-smi mig_mode", `current ${current}, pending ${pending}`, "equal"),
      ...(holders.length === 0 ? [] : [evidence("held by", holders.join(", "), "nobody")]),
    ],
    fix: [
      drainAndReset(facts, selector(card)),
      fix("or take the change back", `nvidia-smi -i ${selector(card)} -mig ${current === "enabled" ? 1 : 0}`, ["root"], true),
    ],
  };
}

function judgeEmpty(card: CardFacts): Verdict {
  if (!inMig(card)) return skipped(`${nameOf(card)} is not in MIG mode`);
  const carved = Math.max(card.raw?.migDevices.length ?? 0, card.listed?.instances.length ?? 0);
  if (carved > 0) return ok(`${count(carved, "instance")} carved`);
  return {
    result: "problem",
    message: `${nameOf(card)}: MIG is on but nothing is carved: the card can run nothing`,
    evidence: [evidence("nvidia-smi mig_devices", "None", "at least one instance")],
    fix: [
      fix(
        "carve it; the profiles that the card offers are listed by the first command",
        `nvidia-smi mig -lgip -i ${selector(card)}`,
        ["root"],
        true,
      ),
      fix("or make it a whole card again", `nvidia-smi -i ${selector(card)} -mig 0`, ["root", "card-idle"]),
    ],
  };
}

function judgeCompute(facts: Facts): readonly Verdict[] {
  const cards = cardsOf(facts).filter(inMig);
  if (cards.length === 0) return [cardsOf(facts).length === 0 ? noCards(facts) : skipped("no card is in MIG mode")];
  const instances = known(facts.migInstances);
  if (instances === undefined) return [unknown(whyUnread(facts.migInstances, "/proc/driver/nvidia/capabilities"))];
  return cards.flatMap((card): readonly Verdict[] => {
    const bare = instances.filter((one) => one.minor === card.minor && one.computeInstanceIds.length === 0);
    if (bare.length === 0) return [ok(`${nameOf(card)}: every GPU instance has a compute instance`, subjectOf(card))];
    return bare.map(({ gpuInstanceId }) => ({
      result: "problem" as const,
      subject: instanceSubject(card, { gpu_instance_id: gpuInstanceId }),
      message: `GPU instance ${gpuInstanceId} on ${nameOf(card)} has no compute part: nothing can run on it`,
      evidence: [evidence(`/proc/driver/nvidia/capabilities/gpu${card.minor}/mig/gi${gpuInstanceId}`, "no ci", "at least one ci")],
      fix: [
        fix("give it one", `nvidia-smi mig -cci -gi ${gpuInstanceId} -i ${selector(card)}`, ["root"], true),
        fix("or give its memory back", `nvidia-smi mig -dgi -gi ${gpuInstanceId} -i ${selector(card)}`, ["root"]),
      ],
    }));
  });
}

function instanceSubject(card: CardFacts, instance: Partial<Extract<Subject, { readonly kind: "instance" }>>): Subject {
  return { kind: "instance", ...compact({ index: card.index, pci_bus_id: card.busId }), ...instance };
}

function judgeAccess(facts: Facts): readonly Verdict[] {
  const carved = facts.inventory.gpus.filter((gpu) => gpu.mig !== undefined);
  if (carved.length === 0) return [cardsOf(facts).length === 0 ? noCards(facts) : skipped("no card has instances")];
  const minors = known(facts.migMinors);
  if (minors === undefined) return [unknown(whyUnread(facts.migMinors, "/proc/driver/nvidia-caps/mig-minors"))];
  if (facts.deviceNodes.kind !== "read") return [unknown(whyUnread(facts.deviceNodes, "/dev"))];
  const nodes = known(facts.capabilityNodes) ?? [];
  return carved.map((gpu): Verdict => {
    const card = cardsOf(facts).find((one) => one.index === gpu.mig?.card);
    const { gpu_instance_id: gi, compute_instance_id: ci } = gpu.mig ?? {};
    if (card?.minor === undefined || gi === undefined || ci === undefined) {
      return unknown(`${gpu.label}: its ids are not known`, instanceOf(gpu));
    }
    const wanted = [`gpu${card.minor}/gi${gi}`, `gpu${card.minor}/gi${gi}/ci${ci}`].flatMap((key) => minors[key] ?? []);
    const missing = wanted.filter((minor) => !nodes.includes(`nvidia-cap${minor}`));
    if (wanted.length < 2) return unknown(`${gpu.label}: mig-minors does not list it`, instanceOf(gpu));
    const closed = wanted.filter((minor) => facts.closedNodes.includes(`nvidia-caps/nvidia-cap${minor}`));
    if (missing.length === 0 && closed.length > 0) {
      const paths = closed.map((minor) => `/dev/nvidia-caps/nvidia-cap${minor}`).join(", ");
      return unknown(`${gpu.label}: needs root, or the engines' user: this one may not read ${paths}`, instanceOf(gpu));
    }
    if (missing.length === 0) return ok(`${gpu.label}: its nodes exist`, instanceOf(gpu));
    const paths = missing.map((minor) => `/dev/nvidia-caps/nvidia-cap${minor}`);
    return {
      result: "problem",
      subject: instanceOf(gpu),
      message: `instance ${gpu.label}: ${paths.join(" and ")} missing: nothing can start on it`,
      evidence: [evidence("/dev/nvidia-caps", `no ${missing.map((minor) => `nvidia-cap${minor}`).join(", ")}`, "present")],
      fix: [
        fix(
          "make the nodes; a udev rule or nvidia-persistenced does it at boot",
          [
            `/proc/driver/nvidia/capabilities/gpu${card.minor}/mig/gi${gi}/access`,
            `/proc/driver/nvidia/capabilities/gpu${card.minor}/mig/gi${gi}/ci${ci}/access`,
          ]
            .map((path) => `nvidia-modprobe -f ${path}`)
            .join(" && "),
          ["root"],
          true,
        ),
      ],
    };
  });
}

function instanceOf(gpu: Gpu): Subject {
  return {
    kind: "instance",
    ...compact({
      uuid: gpu.uuid,
      index: gpu.mig?.card,
      pci_bus_id: gpu.pci_bus_id,
      label: gpu.label,
      gpu_instance_id: gpu.mig?.gpu_instance_id,
      compute_instance_id: gpu.mig?.compute_instance_id,
    }),
  };
}

function perModel(facts: Facts, judge: (model: PlacedModel) => Verdict): readonly Verdict[] {
  if (facts.models === undefined) return [skipped(NO_MODELS)];
  const models = facts.models.filter((model) => model.class.includes("-mig-"));
  if (models.length === 0) return [skipped("no model here asks for MIG instances")];
  return models.map((model) => ({ subject: { kind: "model" as const, name: model.name }, ...judge(model) }));
}

function judgeSpan(facts: Facts): readonly Verdict[] {
  return perModel(facts, (model) => {
    if (model.devices <= 1) return ok(`${model.name} asks for one instance`);
    return {
      result: "problem",
      message: `${model.name} wants ${model.devices} devices of ${model.class}; instances cannot work together`,
      evidence: [evidence("catalog, tp × pp", model.devices, "1")],
      fix: [
        fix(
          "let it ask for one larger instance, for whole cards, or for as many replicas on one instance each",
          `llmgw ctl explain ${model.name}`,
          [],
          true,
        ),
      ],
    };
  });
}

function judgeFit(facts: Facts): readonly Verdict[] {
  return perModel(facts, (model) => {
    const sizes = facts.inventory.gpus.filter((gpu) => gpu.class === model.class).flatMap((gpu) => gpu.memory_total_mb ?? []);
    if (model.need_mb === undefined || sizes.length === 0) return unknown(`${model.name}: its size or that of ${model.class} is not known`);
    const largest = Math.max(...sizes);
    if (model.need_mb <= largest) return ok(`${model.name} fits into ${model.class}`);
    return {
      result: "problem",
      message: `${model.name} needs ${gib(model.need_mb)} GiB; ${model.class} has ${gib(largest)} GiB`,
      evidence: [evidence("nvidia-smi mig_device fb_memory_usage.total", `${largest} MiB`, `${model.need_mb} MiB`)],
      fix: [
        fix("choose a smaller quantisation, or another class", `llmgw ctl explain ${model.name}`, [], true),
        fix("or carve larger instances", drain(facts), ["root", "card-idle"]),
      ],
    };
  });
}

function gib(mb: number): string {
  return (mb / 1024).toFixed(1);
}
