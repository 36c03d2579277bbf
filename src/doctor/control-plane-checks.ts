/** Checks on the way to the control plane and back. Until this node has joined one they are skipped. */
import type { Check, Verdict } from "./check.ts";
import type { ControlPlaneFacts, Facts } from "./facts.ts";
import { evidence, fix, ok, skipped, unknown } from "./verdict.ts";

export const controlPlaneChecks: readonly Check[] = [
  {
    id: "cp-unreachable",
    group: "control-plane",
    severity: "block",
    depends_on: [],
    title: "the control plane answers",
    explain:
      "Name look-up, connection, TLS and a health call are tried in this order, and the first that fails is named: it says where to look. Engines that run keep serving while the control plane is away; nothing new is placed.",
    judge: (facts) => joined(facts, judgeReach),
  },
  {
    id: "cp-tls",
    group: "control-plane",
    severity: "degrade",
    depends_on: ["cp-unreachable"],
    title: "certificates are valid for 14 days and more",
    explain:
      "Both sides show a certificate. Under 14 days before its end is a warning; past it, or before its beginning, nothing gets through. A wrong clock on either side looks the same.",
    judge: (facts) => joined(facts, (plane) => judgeTls(facts, plane)),
  },
  {
    id: "cp-callback",
    group: "control-plane",
    severity: "block",
    depends_on: ["cp-unreachable"],
    title: "the control plane reaches the engines on this node",
    explain:
      "The router talks to engines directly. The control plane therefore connects back to the address that this node advertises: an address of an inner network or a closed port makes every replica here unusable although it runs.",
    judge: (facts) => joined(facts, judgeCallback),
  },
];

function joined(facts: Facts, judge: (plane: ControlPlaneFacts) => readonly Verdict[]): readonly Verdict[] {
  return facts.controlPlane === undefined ? [skipped("this node has not joined a control plane")] : judge(facts.controlPlane);
}

const CAUSES = {
  "look up": "the name is not known to this node's resolver: check the name in agent.yaml and /etc/resolv.conf",
  "connect to": "nothing listens there, or a firewall is between",
  "speak TLS with": "the certificate is not trusted or not for this name, or the port speaks no TLS",
  ask: "it listens and does not answer: look at its log",
} as const;

function judgeReach(plane: ControlPlaneFacts): readonly Verdict[] {
  if (plane.failed === undefined) return [ok(`${plane.address} answers`)];
  const { step, error } = plane.failed;
  return [
    {
      result: "problem",
      message: `cannot ${step} ${plane.address}: ${error}`,
      evidence: [evidence(`${step} ${plane.address}`, error, "an answer within 2 s")],
      fix: [fix(CAUSES[step], `curl -v https://${plane.address}/healthz`, [], true)],
    },
  ];
}

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;

function judgeTls(facts: Facts, plane: ControlPlaneFacts): readonly Verdict[] {
  if (!plane.encrypted) return [skipped("the control plane is on this machine, and spoken to without TLS")];
  if (plane.certificates.length === 0) return [unknown("no certificate could be looked at")];
  return plane.certificates.map(({ who, from_ms: from, until_ms: until }): Verdict => {
    const days = Math.floor((until - facts.nowMs) / DAY_MS);
    const early = facts.nowMs < from;
    if (!early && days >= SOON_DAYS) return ok(`certificate of ${who} is valid for ${days} days`);
    const dead = early || until <= facts.nowMs;
    return {
      result: "problem",
      severity: dead ? "block" : "degrade",
      message: early
        ? `certificate of ${who} is not valid yet`
        : dead
          ? `certificate of ${who} has ended`
          : `certificate of ${who} ends in ${days} days`,
      evidence: [
        evidence(
          `certificate of ${who}`,
          `${new Date(from).toISOString()} to ${new Date(until).toISOString()}`,
          `${SOON_DAYS} days and more`,
        ),
      ],
      fix: [
        fix(early ? "check the clocks of both sides first" : "renew it, then restart the service that shows it", undefined, ["root"], true),
      ],
    };
  });
}

function judgeCallback(plane: ControlPlaneFacts): readonly Verdict[] {
  if (plane.callback === undefined) return [skipped("no engine listens here yet")];
  const { address, error } = plane.callback;
  if (error === undefined) return [ok(`the control plane reaches ${address}`)];
  return [
    {
      result: "problem",
      message: `the control plane cannot reach ${address}: ${error}`,
      evidence: [evidence("connection back", error, "connected")],
      fix: [fix("advertise an address that the control plane can reach, or open the port", undefined, ["root"], true)],
    },
  ];
}
