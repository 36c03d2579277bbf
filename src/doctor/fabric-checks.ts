/** Checks on adapters and their ports. A recording has no history: "never used" is judged from what it shows. */

import type { Severity, Subject } from "../domain/finding.ts";
import type { Hca, Port } from "../domain/inventory.ts";
import type { Check, Verdict } from "./check.ts";
import type { Facts } from "./facts.ts";
import { count, evidence, fix, ok, skipped, unknown } from "./verdict.ts";

export const fabricChecks: readonly Check[] = [
  {
    id: "ib-port-down",
    group: "fabric",
    severity: "degrade",
    depends_on: [],
    title: "ports that are in use are up",
    explain:
      "A port counts as in use when agent.yaml puts its adapter on a fabric, or when a sister (the same port of another adapter of its board) is up, or when it still holds an address from before; a port that was never used is no fault. An Ethernet port beside one that is up is only advice, since its second cage is often left empty. A port in INIT is the matter of ib-no-subnet-manager. Read from state and phys_state under /sys/class/infiniband.",
    judge: judgePorts,
  },
  {
    id: "ib-no-subnet-manager",
    group: "fabric",
    severity: "degrade",
    depends_on: [],
    title: "a subnet manager has configured every InfiniBand link",
    explain:
      "An InfiniBand link that is physically up stays in INIT until a subnet manager gives it an address: the cable is good and nothing can be sent. ARMED means that the manager is part way. Blocks models that span nodes; without any, it degrades. Read from state, lid and sm_lid under /sys/class/infiniband.",
    judge: judgeManager,
  },
  {
    id: "ib-rate-below-peers",
    group: "fabric",
    severity: "degrade",
    depends_on: [],
    title: "ports run as fast as most of their board",
    explain:
      "A cable or transceiver with a bad lane trains at a quarter or half of the speed, and the slowest rail sets the pace of all. Judged against what more than half of the ports of the same board run at. Read from rate under /sys/class/infiniband.",
    judge: judgeRates,
  },
  {
    id: "ib-same-lid",
    group: "fabric",
    severity: "degrade",
    depends_on: [],
    title: "no two ports of one fabric hold the same address",
    explain:
      "A subnet manager gives every port of its subnet another LID. Two ports up with the same LID are therefore on two fabrics, however alike their prefixes look; used as one, connections fail. Ports whose prefixes differ are told apart already. Declare the fabrics in agent.yaml. Virtual functions share the LID of their physical one and are left out.",
    judge: judgeLids,
  },
  {
    id: "roce-no-gid",
    group: "fabric",
    severity: "advise",
    depends_on: [],
    title: "Ethernet ports that are up have an address",
    explain:
      "RDMA over Ethernet addresses a port by its GID, which is made from the IP address of its interface. An adapter port that is up without any GID cannot be used for RDMA. Read from gids/0 under /sys/class/infiniband.",
    judge: judgeGids,
  },
];

/**
 * Boards with a cage that is normally left empty: in a DGX Spark both cages of one ConnectX-7 show up twice each, and one cable is the
 * usual way to join two of them. Source: recorded machine of that kind.
 */
const EMPTY_CAGE_BOARDS = ["NVD0000000087"];

interface Seen {
  readonly hca: Hca;
  readonly port: Port;
  readonly subject: Subject;
  readonly name: string;
}

function portsOf(facts: Facts): readonly Seen[] {
  return facts.inventory.hcas.flatMap((hca) =>
    hca.ports.map((port) => ({
      hca,
      port,
      subject: { kind: "port" as const, adapter: hca.name, port: port.num },
      name: `${hca.name} port ${port.num}`,
    })),
  );
}

/** Judges each port; without adapters there is nothing to judge. */
function perPort(facts: Facts, judge: (seen: Seen, all: readonly Seen[]) => Verdict): readonly Verdict[] {
  const all = portsOf(facts);
  if (all.length === 0) return [skipped("no adapters")];
  return all.map((seen) => ({ subject: seen.subject, ...judge(seen, all) }));
}

function isUp(port: Port): boolean {
  return port.state === "ACTIVE";
}

function isSister(one: Seen, other: Seen): boolean {
  if (one === other) return false;
  return one.hca === other.hca || (one.hca.board_id !== undefined && one.hca.board_id === other.hca.board_id);
}

function judgePorts(facts: Facts): readonly Verdict[] {
  const portless = facts.inventory.hcas
    .filter((hca) => hca.ports.length === 0)
    .map((hca) => unknown(`${hca.name} shows no ports`, { kind: "adapter", name: hca.name }));
  return [...perPort(facts, (seen, all) => judgePort(facts, seen, all)), ...noneUp(facts), ...portless];
}

function judgePort(facts: Facts, seen: Seen, all: readonly Seen[]): Verdict {
  const { port, hca, name } = seen;
  if (port.state === undefined) return unknown(`${name}: its state cannot be read`);
  const waits = port.state === "INIT" || port.state === "ARMED";
  if (isUp(port)) return ok(`${name} is up`);
  if (waits && port.link_layer !== "Ethernet") return skipped(`${name}: see ib-no-subnet-manager`);
  if (!/^(DOWN|NOP|INIT|ARMED|ACTIVE_DEFER)$/.test(port.state))
    return unknown(`${name} is in state ${port.state}, which is not known here`);
  const state = `${port.state}/${port.phys_state ?? "-"}`;
  if (port.fabric === undefined) {
    if (EMPTY_CAGE_BOARDS.includes(hca.board_id ?? "")) return skipped(`${name} is ${state}: a cage that is usually left empty`);
    // A LID is given by a subnet manager: a port that still holds one has been up before.
    const wasUp = port.link_layer !== "Ethernet" && port.lid !== undefined && port.lid > 0 && port.lid < 0xffff;
    // The second port of an adapter is often left empty, so only ports of its number on other adapters count.
    const sisterUp = all.some((other) => other.hca !== hca && other.port.num === port.num && isSister(seen, other) && isUp(other.port));
    if (!wasUp && !sisterUp) return skipped(`${name} is ${state}: never used, as far as can be seen`);
  }
  const ethernet = port.link_layer === "Ethernet" && port.fabric === undefined;
  return {
    result: "problem",
    ...(ethernet ? { severity: "advise" as const } : {}),
    message: `${name} is ${state}${port.fabric === undefined ? "" : ` (fabric ${port.fabric})`}`,
    evidence: [
      evidence(`/sys/class/infiniband/${hca.name}/ports/${port.num}/state`, port.state, "ACTIVE"),
      evidence(`/sys/class/infiniband/${hca.name}/ports/${port.num}/phys_state`, port.phys_state ?? "-", "LinkUp"),
    ],
    fix: portFix(facts, seen),
  };
}

function portFix(facts: Facts, { hca, port }: Seen) {
  const waiver = `doctor: { waive: [{ id: ib-port-down, subject: ${hca.name}/${port.num}, reason: unused }] }`;
  const waive = fix(`if it is meant to be unused, say so in agent.yaml: ${waiver}`, undefined, [], true);
  if (facts.virtualAdapters.includes(hca.name)) {
    return [
      fix(
        "give the virtual function a node GUID and a port GUID, then bind it again",
        `ip link show ${hca.netdevs[0] ?? hca.name}`,
        ["root"],
        true,
      ),
    ];
  }
  if (port.phys_state === "Disabled") {
    return [fix("it was switched off by software: enable it", `ibportstate -D 0 ${port.num} enable`, ["root"], true), waive];
  }
  return [fix("check cable and transceiver, then the port of the switch", `mlxlink -d ${hca.name} -p ${port.num}`, ["root"], true), waive];
}

/** Several InfiniBand ports and none up: one missing cable is nobody's use of it, all of them are a node cut off. */
function noneUp(facts: Facts): readonly Verdict[] {
  const ports = portsOf(facts).filter((seen) => seen.port.link_layer === "InfiniBand" && seen.port.state !== undefined);
  if (ports.length < 2 || ports.some((seen) => seen.port.state !== "DOWN")) return [];
  if (ports.some((seen) => seen.port.fabric !== undefined)) return [];
  return [
    {
      result: "problem",
      message: `none of ${count(ports.length, "InfiniBand port")} is up: no model can span this node and another`,
      evidence: ports.map(({ hca, port }) =>
        evidence(`/sys/class/infiniband/${hca.name}/ports/${port.num}`, `${port.state}/${port.phys_state ?? "-"}`, "ACTIVE/LinkUp"),
      ),
      fix: [
        fix("check the cables and the switch; ports that are Disabled have to be enabled", "ibstat", ["root"], true),
        fix(
          "if they are meant to be unused, say so in agent.yaml: doctor: { waive: [{ id: ib-port-down, subject: node, reason: no fabric here }] }",
          undefined,
          [],
          true,
        ),
      ],
    },
  ];
}

function judgeManager(facts: Facts): readonly Verdict[] {
  const severity: Severity = (facts.models ?? []).some((model) => model.multi_node) ? "block" : "degrade";
  return perPort(facts, ({ port, name, hca }) => {
    if (port.link_layer !== undefined && port.link_layer !== "InfiniBand") return skipped(`${name} is ${port.link_layer}: it has none`);
    if (port.state === undefined) return unknown(`${name}: its state cannot be read`);
    const waits = port.state === "INIT" || port.state === "ARMED" || (isUp(port) && port.sm_lid === 0);
    if (!waits) {
      if (!isUp(port)) return skipped(`${name} is ${port.state}`);
      return port.sm_lid === undefined ? unknown(`${name}: the address of its subnet manager cannot be read`) : ok(`${name} is configured`);
    }
    return {
      result: "problem",
      severity,
      message:
        port.state === "ARMED"
          ? `${name}: the subnet manager is part way (ARMED); if it stays so, its sweep is stuck`
          : `${name}: link is up but no subnet manager answers`,
      evidence: [
        evidence(`/sys/class/infiniband/${hca.name}/ports/${port.num}/state`, port.state, "ACTIVE"),
        evidence(`/sys/class/infiniband/${hca.name}/ports/${port.num}/sm_lid`, port.sm_lid ?? "not readable", "not 0"),
      ],
      fix: [
        fix("start a subnet manager on this fabric: on a managed switch, or on one host", "systemctl enable --now opensm", ["root"]),
        fix("if one runs, see whether this port is in its partition", `sminfo -C ${hca.name} -P ${port.num}`, ["root"], true),
      ],
    };
  });
}

function judgeRates(facts: Facts): readonly Verdict[] {
  return perPort(facts, (seen, all) => {
    const { port, name, hca } = seen;
    if (!isUp(port)) return skipped(`${name} is not up, its rate is a placeholder`);
    if (port.rate_gbps === undefined) return unknown(`${name}: its rate cannot be read`);
    const rates = all
      .filter((other) => (other === seen || isSister(seen, other)) && isUp(other.port) && other.port.link_layer === port.link_layer)
      .flatMap((other) => other.port.rate_gbps ?? []);
    const usual = rates.find((rate) => rates.filter((one) => one === rate).length * 2 > rates.length);
    if (rates.length < 3 || usual === undefined) return ok(`${name}: ${port.rate_gbps} Gb/s, with no majority to compare with`);
    if (port.rate_gbps >= usual) return ok(`${name}: ${port.rate_gbps} Gb/s`);
    const siblings = rates.filter((rate) => rate === usual).length;
    return {
      result: "problem",
      message: `${name} runs at ${port.rate_gbps} Gb/s, its ${count(siblings, "sibling")} at ${usual}`,
      evidence: [evidence(`/sys/class/infiniband/${hca.name}/ports/${port.num}/rate`, `${port.rate_gbps} Gb/s`, `${usual} Gb/s`)],
      fix: [
        fix(
          "reseat or swap the cable; then check the speed that the switch's port is set to",
          `mlxlink -d ${hca.name} -p ${port.num}`,
          ["root"],
          true,
        ),
      ],
    };
  });
}

function judgeLids(facts: Facts): readonly Verdict[] {
  const physical = (seen: Seen): boolean => !facts.virtualAdapters.includes(seen.hca.name);
  return perPort(facts, (seen, all) => {
    const { port, name, hca } = seen;
    if (port.link_layer !== "InfiniBand" || !isUp(port)) return skipped(`${name} is no InfiniBand port that is up`);
    if (port.lid === undefined) return unknown(`${name}: its address cannot be read`);
    if (!physical(seen)) return skipped(`${name} is a virtual function`);
    const twin = all.find(
      (other) =>
        other !== seen &&
        physical(other) &&
        isUp(other.port) &&
        other.port.link_layer === "InfiniBand" &&
        other.port.lid === port.lid &&
        port.lid !== 0 &&
        // Prefixes that differ tell the two apart already; equal ones prove nothing.
        (port.gid_prefix === undefined || other.port.gid_prefix === undefined || port.gid_prefix === other.port.gid_prefix) &&
        (port.fabric === undefined || other.port.fabric === undefined || port.fabric === other.port.fabric),
    );
    if (twin === undefined) return ok(`${name} holds LID ${port.lid} alone`);
    return {
      result: "problem",
      message: `${name} and ${twin.name} hold the same LID ${port.lid}: they are on two fabrics`,
      evidence: [evidence(`/sys/class/infiniband/${hca.name}/ports/${port.num}/lid`, port.lid, "a number of its own")],
      fix: [
        fix(
          `declare the fabrics in agent.yaml, so that no engine uses both as one: fabrics: [{ name: rail0, adapters: [${hca.name}] }, { name: rail1, adapters: [${twin.hca.name}] }]`,
          undefined,
          [],
          true,
        ),
      ],
    };
  });
}

function judgeGids(facts: Facts): readonly Verdict[] {
  return perPort(facts, ({ port, name, hca }) => {
    if (port.link_layer !== "Ethernet" || !isUp(port)) return skipped(`${name} is no Ethernet port that is up`);
    if (port.gid_prefix !== undefined) return ok(`${name} has a GID`);
    // Where not even the LID could be read, the recording is thin and says nothing about GIDs.
    if (port.lid === undefined) return unknown(`${name}: its addresses cannot be read`);
    return {
      result: "problem",
      message: `${name} has no GID: RDMA over Ethernet cannot use it`,
      evidence: [evidence(`/sys/class/infiniband/${hca.name}/ports/${port.num}/gids/0`, "none", "an address")],
      fix: [fix("give its interface an IP address", `ip addr show ${hca.netdevs[0] ?? hca.name}`, ["root"], true)],
    };
  });
}
