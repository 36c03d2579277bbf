/** Checks on NVLink: links of each card, registration with the fabric, and the fabric manager of an NVSwitch board. */
import type { RawCard } from "../discovery/nvidia-smi/query.ts";
import { type CardFacts, cardsOf, inMig, nameOf, noCards, perCard, selector, subjectOf } from "./cards.ts";
import type { Check, Verdict } from "./check.ts";
import { type Facts, known, whyUnread } from "./facts.ts";
import { ANSWERING, count, DRIVER, drainAndReset, evidence, fix, ok, skipped, unknown } from "./verdict.ts";

export const nvlinkChecks: readonly Check[] = [
  {
    id: "nvlink-down",
    group: "nvlink",
    severity: "degrade",
    depends_on: [...ANSWERING, "nvlink-fabric-manager"],
    title: "every card has as many links as its sisters",
    explain:
      "A card with fewer NVLinks than cards of its class beside it slows every model that spans cards. Cards without any link among PCIe cards are not fitted with a bridge; cards in MIG mode have none, nor has their partner on a bridge. Read from nvidia-smi topo -m.",
    judge: judgeLinks,
  },
  {
    id: "nvlink-fabric",
    group: "nvlink",
    severity: "block",
    depends_on: [...ANSWERING, "nvlink-fabric-manager"],
    title: "every card is registered with the NVLink fabric",
    explain:
      "Behind NVSwitch a card has to be registered with the fabric before CUDA starts on it: until then programs fail with error 802, system not yet initialized, or hang. Read from nvidia-smi, fabric state and status. A card that answers N/A is on no fabric.",
    judge: (facts) => perCard(facts, judgeFabric),
  },
  {
    id: "nvlink-fabric-manager",
    group: "nvlink",
    severity: "block",
    depends_on: [...DRIVER],
    title: "the fabric manager runs, in the driver's version",
    explain:
      "A board with NVSwitches on the PCI bus needs NVIDIA's fabric manager of exactly the driver's version. Read from the PCI list (class 0680), systemctl show, and nv-fabricmanager --version. Boards whose switches are not on the node's own bus are judged by nvlink-fabric.",
    judge: judgeManager,
  },
];

/** Links of a card: on a switch all of them lead to every other card; on bridges and meshes they add up. */
function linksOf(facts: Facts, card: CardFacts): number | undefined {
  const row = facts.nvidia.topology?.cards.find((one) => one.index === card.index);
  if (row === undefined) return undefined;
  const links = Object.values(row.nvlinks);
  const switched = card.raw?.fabric !== undefined || switches(facts) > 0;
  return switched ? Math.max(0, ...links) : links.reduce((sum, one) => sum + one, 0);
}

function switches(facts: Facts): number {
  return (known(facts.pci) ?? []).filter((one) => one.classCode === "0680").length;
}

function judgeLinks(facts: Facts): readonly Verdict[] {
  const cards = cardsOf(facts).filter((card) => card.index !== undefined && card.raw !== undefined);
  if (cards.length === 0) return [noCards(facts)];
  if (cards.length === 1) return [skipped("one card alone")];
  if (facts.nvidia.topology === undefined) return [unknown("nvidia-smi topo -m gave no matrix")];
  const whole = cards.filter((card) => !inMig(card));
  const counts = new Map(whole.map((card) => [card, linksOf(facts, card)]));
  if ([...counts.values()].every((links) => links === 0 || links === undefined)) return [skipped("no NVLink is fitted")];
  return cards.map((card): Verdict => {
    const subject = subjectOf(card);
    if (inMig(card)) return skipped(`${nameOf(card)} is in MIG mode`, subject);
    const own = counts.get(card);
    if (own === undefined) return unknown(`${nameOf(card)} is not in the matrix`, subject);
    const sisters = whole.filter((other) => other !== card && other.class === card.class).flatMap((other) => counts.get(other) ?? []);
    const most = Math.max(0, ...sisters);
    if (own >= most) return ok(`${nameOf(card)}: ${count(own, "link")}`, subject);
    if (cards.some((other) => other.class === card.class && inMig(other))) {
      return skipped(`${nameOf(card)}: a card beside it is in MIG mode, which takes the links to it down`, subject);
    }
    if (own === 0 && !isOnBoard(facts, card)) return skipped(`${nameOf(card)} is fitted with no bridge`, subject);
    return {
      result: "problem",
      subject,
      message: `${nameOf(card)}: ${own} of ${count(most, "link")} up`,
      evidence: [evidence("nvidia-smi topo -m", `NV${own}`, `NV${most}`)],
      fix: [
        drainAndReset(facts, selector(card)),
        fix(
          "if it stays so: reseat the bridge, or look at the fabric manager's log",
          "journalctl -u nvidia-fabricmanager -b",
          ["root"],
          true,
        ),
      ],
    };
  });
}

/** Whether its links are part of its board, so that none is a fault: SXM modules and superchips, or a card on a fabric. */
function isOnBoard(facts: Facts, card: CardFacts): boolean {
  return card.raw?.fabric !== undefined || switches(facts) > 0 || /SXM|\bHBM3?\b|\bG[BH]\d{3}\b/i.test(card.name ?? "");
}

function judgeFabric(card: CardFacts, raw: RawCard): Verdict {
  const { fabric } = raw;
  if (fabric === undefined) return skipped(`${nameOf(card)} is on no NVLink fabric`);
  const status = fabric.status ?? "-";
  const healthy = /^completed$/i.test(fabric.state) && (fabric.status === undefined || /^success$/i.test(fabric.status));
  const summary = fabric.healthSummary;
  if (healthy && (summary === undefined || !/unhealthy|limited/i.test(summary))) return ok("registered");
  return {
    result: "problem",
    message: healthy
      ? `${nameOf(card)}: NVLink fabric health is ${summary}`
      : `${nameOf(card)}: fabric is ${fabric.state}/${status}: CUDA will fail with "system not yet initialized" (802)`,
    evidence: [
      evidence("nvidia-smi fabric.state", fabric.state, "Completed"),
      evidence("nvidia-smi fabric.status", status, "Success"),
      ...(summary === undefined ? [] : [evidence("nvidia-smi fabric.health.summary", summary, "Healthy")]),
    ],
    fix: [
      fix(
        "start the fabric manager and look at its log; on newer boards load mlx5_ib and ib_umad first",
        "systemctl restart nvidia-fabricmanager && journalctl -u nvidia-fabricmanager -b",
        ["root"],
      ),
      fix(
        "in a rack-wide domain its control software runs on the switch trays: look there whether this node is admitted",
        undefined,
        [],
        true,
      ),
    ],
  };
}

function judgeManager(facts: Facts): readonly Verdict[] {
  if (facts.pci.kind === "refused") return [unknown(facts.pci.why)];
  const found = switches(facts);
  if (found === 0) return [skipped("no NVSwitch on this node's PCI bus")];
  const driver = facts.inventory.driver_version ?? facts.proc?.driverVersion;
  const version = known(facts.fabricManagerVersion);
  if (version !== undefined && driver !== undefined && version !== driver) {
    return [
      {
        result: "problem",
        message: `fabric manager ${version} does not match driver ${driver}`,
        evidence: [evidence("nv-fabricmanager --version", version, driver)],
        fix: [
          fix("install the fabric manager of the driver's version, then restart it", "systemctl restart nvidia-fabricmanager", [
            "root",
            "card-idle",
          ]),
        ],
      },
    ];
  }
  const service = known(facts.services)?.["nvidia-fabricmanager"];
  if (service === undefined) {
    return [unknown(`whether the fabric manager runs is not known: ${whyUnread(facts.services, "the state of its service")}`)];
  }
  if (service.active === "active")
    return [ok(`fabric manager ${version ?? ""} runs for ${count(found, "NVSwitch", "NVSwitches")}`.replace("  ", " "))];
  return [
    {
      result: "problem",
      message: service.load === "not-found" ? "the fabric manager is not installed" : `fabric manager is not running (${service.active})`,
      evidence: [
        evidence("PCI bus", count(found, "NVSwitch", "NVSwitches")),
        evidence("systemctl show nvidia-fabricmanager", `${service.load}, ${service.active}`, "loaded, active"),
      ],
      fix: [
        service.load === "not-found"
          ? fix(
              `install the fabric manager of exactly version ${driver ?? "of the driver"}, then start it`,
              "systemctl enable --now nvidia-fabricmanager",
              ["root"],
            )
          : fix("start it, and look at its log if it does not stay up", "systemctl enable --now nvidia-fabricmanager", ["root"]),
      ],
    },
  ];
}
