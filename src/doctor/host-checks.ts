/** Checks on the host that engines run on. */

import { busCards, cardsOf, inMig } from "./cards.ts";
import type { Check, Verdict } from "./check.ts";
import { type Facts, known, whyUnread } from "./facts.ts";
import { count, evidence, fix, ok, skipped, unknown } from "./verdict.ts";

export const hostChecks: readonly Check[] = [
  {
    id: "host-facts",
    group: "host",
    severity: "advise",
    depends_on: [],
    title: "everything that was looked at could be read",
    explain:
      "What could not be read is not known to be well. Each such place is named here once; what the other checks say of it is as good as what could be read. Taken from the warnings of the inventory.",
    judge: judgeFacts,
  },
  {
    id: "host-shm",
    group: "host",
    severity: "degrade",
    depends_on: [],
    title: "shared memory is large enough for engines over several cards",
    explain:
      "The workers of an engine over several cards exchange data through /dev/shm. A container gets 64 MiB of it unless told otherwise, and the engine then crashes with no space left on device. Wanted: 1 GiB per card. Read from the size of /dev/shm.",
    judge: judgeShm,
  },
  {
    id: "host-open-files",
    group: "host",
    severity: "degrade",
    depends_on: [],
    title: "engines may open enough files",
    explain:
      "Each connection, each mapped shard of a model and each handle shared between cards is an open file. The hard limit counts, since a program raises its own soft limit up to it. Judged where there are cards. Read from /proc/self/limits.",
    judge: judgeOpenFiles,
  },
  {
    id: "host-clock",
    group: "host",
    severity: "degrade",
    depends_on: [],
    title: "the clock is kept right",
    explain:
      "Certificates, tokens and the age of reports all go by the clock: over 2 s from the control plane degrades, over 60 s blocks. Before a node has joined, only whether something keeps the clock can be seen: timesyncd's mark, or a time service that runs.",
    judge: judgeClock,
  },
];

function judgeFacts(facts: Facts): readonly Verdict[] {
  // What the driver's own calls said is the matter of the driver's checks.
  const said = facts.nvidia.calls.flatMap((call) => call.text ?? []);
  const rest = facts.inventory.warnings.filter((warning) => !said.some((text) => warning.includes(text)));
  return rest.length === 0 ? [ok("all could be read")] : rest.map((warning) => unknown(warning));
}

const GIB = 1024 ** 3;

function judgeShm(facts: Facts): readonly Verdict[] {
  const whole = cardsOf(facts).filter((card) => card.raw?.lost !== true && card.lostReason === undefined && !inMig(card)).length;
  const largest = Math.max(0, ...(facts.models ?? []).map((model) => model.devices));
  const cards = facts.models === undefined ? whole : largest;
  if (cards < 2) return [skipped("no engine here can span cards")];
  const space = known(facts.sharedMemory);
  if (space === undefined) return [unknown(whyUnread(facts.sharedMemory, "/dev/shm"))];
  const size = space.total_bytes < GIB ? `${Math.round(space.total_bytes / 1024 ** 2)} MiB` : `${(space.total_bytes / GIB).toFixed(1)} GiB`;
  if (space.total_bytes >= cards * GIB) return [ok(`shared memory is ${size}`)];
  return [
    {
      result: "problem",
      subject: { kind: "path", path: "/dev/shm" },
      message: `shared memory is ${size}: engines over ${count(cards, "card")} crash with "no space left on device"`,
      evidence: [evidence("size of /dev/shm", size, `${cards} GiB, 1 per card`)],
      fix: facts.container
        ? [fix("start the container with the host's, or with more", `docker run --ipc=host …, or --shm-size=${cards}g`, [], true)]
        : [fix("make it larger", `mount -o remount,size=${cards}G /dev/shm`, ["root"], true)],
    },
  ];
}

const WANTED_FILES = 65_536;

function judgeOpenFiles(facts: Facts): readonly Verdict[] {
  if (cardsOf(facts).length === 0 && busCards(facts).length === 0) return [skipped("no card here: engines open few files")];
  const limits = known(facts.openFiles);
  if (limits === undefined) return [unknown(whyUnread(facts.openFiles, "/proc/self/limits"))];
  if (limits.hard === undefined || limits.hard >= WANTED_FILES) return [ok(`up to ${limits.hard ?? "any number of"} open files`)];
  return [
    {
      result: "problem",
      message: `open files limit ${limits.hard}`,
      evidence: [evidence("/proc/self/limits, Max open files, hard", limits.hard, `${WANTED_FILES} or more`)],
      fix: [
        fix(
          "raise it in the service (LimitNOFILE=1048576) or for the container (--ulimit nofile=1048576)",
          "systemctl edit llmgw-agent",
          ["root"],
          true,
        ),
      ],
    },
  ];
}

const TIME_SERVICES = ["systemd-timesyncd", "chronyd", "chrony", "ntpd", "ntpsec", "ptp4l"];
const [DRIFT_MS, FAR_OFF_MS] = [2_000, 60_000];

function judgeClock(facts: Facts): readonly Verdict[] {
  const offset = facts.controlPlane?.clock_offset_ms;
  if (offset !== undefined) {
    if (Math.abs(offset) < DRIFT_MS) return [ok("the clock agrees with the control plane's")];
    return [
      {
        result: "problem",
        severity: Math.abs(offset) >= FAR_OFF_MS ? "block" : "degrade",
        message: `clock is ${(Math.abs(offset) / 1000).toFixed(1)} s ${offset > 0 ? "ahead" : "behind"}`,
        evidence: [evidence("heartbeat", `${offset} ms`, `under ${DRIFT_MS} ms`)],
        fix: [fix("turn on time synchronisation", "systemctl enable --now systemd-timesyncd", ["root"], true)],
      },
    ];
  }
  if (known(facts.timeSynchronized) === true) return [ok("timesyncd has set the clock")];
  if (facts.container) return [skipped("the host of this container keeps the clock")];
  const services = known(facts.services);
  if (services === undefined) return [unknown("whether a time service runs is not known")];
  const running = TIME_SERVICES.find((name) => services[name]?.active === "active");
  if (running !== undefined) return [ok(`${running} keeps the clock`)];
  return [
    {
      result: "problem",
      severity: "advise",
      message: "no time service runs: the clock will drift",
      evidence: [
        evidence("systemctl show", TIME_SERVICES.map((name) => `${name} ${services[name]?.active ?? "-"}`).join(", "), "one active"),
      ],
      fix: [fix("turn on time synchronisation", "systemctl enable --now systemd-timesyncd", ["root"], true)],
    },
  ];
}
