/** Every check shown failing and passing, on fake machines where one shows it, else on facts changed by hand. */
import { describe, expect, test } from "bun:test";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { runChecks } from "../../src/doctor/check.ts";
import { CHECKS } from "../../src/doctor/checks.ts";
import { mayOpen, parseUser } from "../../src/doctor/collect-driver.ts";
import type { ConfiguredEngine, ControlPlaneFacts, Facts, PlacedModel } from "../../src/doctor/facts.ts";
import { type Finding, type Severity, subjectText, worstProblem } from "../../src/domain/finding.ts";
import { runLlmgw } from "../support/cli.ts";
import { temporaryFolder } from "../support/folders.ts";
import { factsOf, findingsOf } from "../support/machines.ts";

const machines = readdirSync(join(import.meta.dir, "../golden")).sort();
const all = new Map(await Promise.all(machines.map(async (name) => [name, await findingsOf(name)] as const)));

function findings(machine: string): readonly Finding[] {
  return all.get(machine)?.findings ?? [];
}

function judge(facts: Facts, id: string): readonly Finding[] {
  return runChecks(CHECKS, facts, { only: [id] });
}

/** check → machine and subject where it is a problem → machine where it is ok. */
const ON_FAKES: readonly (readonly [id: string, failing: string, subject: string, severity: Severity, passing: string])[] = [
  ["driver-loaded", "no-driver", "node", "block", "l40s-pcie-4"],
  ["driver-nouveau", "nouveau-holds-card", "gpu 0000:18:00.0", "block", "l40s-pcie-4"],
  ["driver-secure-boot", "secure-boot-rejects", "node", "block", "l40s-pcie-4"],
  ["driver-library-mismatch", "driver-library-mismatch", "node", "block", "l40s-pcie-4"],
  ["driver-upgrade-pending", "a100-neglected", "node", "degrade", "l40s-pcie-4"],
  ["driver-device-nodes", "a100-neglected", "/dev/nvidia-uvm", "block", "l40s-pcie-4"],
  ["driver-query-hung", "nvidia-smi-hangs", "node", "block", "l40s-pcie-4"],
  ["driver-persistence", "a100-neglected", "gpu 2", "advise", "l40s-pcie-4"],
  ["gpu-missing", "h100-links-and-rails", "gpu 0000:da:00.0", "block", "l40s-pcie-4"],
  ["gpu-off-bus", "h100-card-lost", "gpu 3", "block", "l40s-pcie-4"],
  ["gpu-recovery-action", "ecc-row-remap", "gpu 1", "block", "l40s-pcie-4"],
  ["gpu-xid", "a100-neglected", "gpu 2", "block", "l40s-pcie-4"],
  ["gpu-xid", "a100-neglected", "gpu 1", "degrade", "l40s-pcie-4"],
  ["gpu-xid", "a100-neglected", "gpu 0", "advise", "l40s-pcie-4"],
  ["gpu-ecc-uncorrected", "ecc-row-remap", "gpu 0", "degrade", "l40s-pcie-4"],
  ["gpu-row-remap-pending", "ecc-row-remap", "gpu 1", "degrade", "l40s-pcie-4"],
  ["gpu-row-remap-failed", "ecc-row-remap", "gpu 2", "block", "l40s-pcie-4"],
  ["gpu-thermal", "thermal-power-brake", "gpu 0", "degrade", "l40s-pcie-4"],
  ["gpu-power-brake", "thermal-power-brake", "gpu 1", "degrade", "l40s-pcie-4"],
  ["gpu-pcie-width", "a100-neglected", "gpu 1", "degrade", "l40s-pcie-4"],
  ["gpu-compute-mode", "a100-neglected", "gpu 2", "block", "l40s-pcie-4"],
  ["gpu-compute-mode", "a100-neglected", "gpu 3", "degrade", "l40s-pcie-4"],
  ["gpu-foreign-process", "a100-neglected", "gpu 0", "degrade", "h100-nvswitch-8"],
  ["gpu-memory-orphaned", "a100-neglected", "gpu 1", "degrade", "h100-nvswitch-8"],
  ["gpu-not-offered", "a100-old-driver", "0/mig0", "block", "l40s-pcie-4"],
  ["mig-pending-change", "a100-mig-pending", "gpu 0", "block", "a100-mig-mixed"],
  ["mig-enabled-empty", "a100-mig-empty", "gpu 0", "block", "a100-mig-mixed"],
  ["mig-instance-without-compute", "h100-mig-half-made", "gpu 0 gi 1", "block", "a100-mig-mixed"],
  ["mig-caps-access", "h100-mig-half-made", "0/mig1", "block", "a100-mig-mixed"],
  ["nvlink-down", "h100-links-and-rails", "gpu 2", "degrade", "h100-nvswitch-8"],
  ["nvlink-fabric", "gb200-domain-degraded", "gpu 2", "block", "gb200-domain-up"],
  ["nvlink-fabric-manager", "nvswitch-no-manager", "node", "block", "h100-nvswitch-8"],
  ["ib-port-down", "h100-links-and-rails", "mlx5_3/1", "degrade", "h100-nvswitch-8"],
  ["ib-no-subnet-manager", "no-subnet-manager", "mlx5_0/1", "degrade", "h100-nvswitch-8"],
  ["ib-rate-below-peers", "h100-links-and-rails", "mlx5_1/1", "degrade", "h100-nvswitch-8"],
  ["ib-same-lid", "h100-links-and-rails", "mlx5_4/1", "degrade", "h100-nvswitch-8"],
  ["host-shm", "a100-neglected", "/dev/shm", "degrade", "h100-nvswitch-8"],
  ["host-open-files", "a100-neglected", "node", "degrade", "h100-nvswitch-8"],
  ["host-clock", "a100-neglected", "node", "advise", "h100-nvswitch-8"],
  ["store-weights", "h100-nvswitch-8", "half-copied", "advise", "h100-nvswitch-8"],
  ["store-access", "a100-neglected", "/var/lib/llmgw/models", "block", "h100-nvswitch-8"],
  ["store-disk", "a100-neglected", "/", "block", "h100-nvswitch-8"],
];

describe.each(ON_FAKES)("%s", (id, failing, subject, severity, passing) => {
  test(`is a problem on ${failing} (${subject}, ${severity}), with words, evidence and what to do`, () => {
    const found = findings(failing).find((one) => one.id === id && one.result === "problem" && subjectText(one.subject) === subject);
    expect(found?.severity).toBe(severity);
    expect([found?.message.length, found?.evidence.length, found?.fix.length].every((length) => (length ?? 0) > 0)).toBe(true);
  });

  test(`is ok on ${passing}`, () => {
    expect(findings(passing).some((one) => one.id === id && one.result === "ok")).toBe(true);
  });
});

const model: PlacedModel = { name: "chat", devices: 1, class: "a100-80g-mig-3g.40gb", need_mb: 20_000, multi_node: false, path: undefined };
const engine: ConfiguredEngine = {
  name: "vllm",
  program: "/opt/vllm/bin/vllm",
  wanted: "0.20 or newer",
  found: { version: "0.21.0", supported: true },
  cuda_version: "12.1",
  takes_instances: true,
  models: ["chat"],
};
const DAY_MS = 86_400_000;
const base = await factsOf("a100-mig-mixed");
const plane: ControlPlaneFacts = {
  address: "gw.example:7443",
  failed: undefined,
  certificates: [{ who: "the control plane", from_ms: base.nowMs - DAY_MS, until_ms: base.nowMs + 90 * DAY_MS }],
  callback: { address: "10.0.0.7:8000", error: undefined },
  clock_offset_ms: 40,
  encrypted: true,
};
const with_ = (change: Partial<Facts>): Facts => ({ ...base, ...change });
const slow = { ...base.nvidia, calls: base.nvidia.calls.map((call) => ({ ...call, tookMs: 31_000 })) };

/** What no machine can show yet. */
const ON_FACTS: readonly (readonly [id: string, failing: Facts, severity: Severity, passing: Facts])[] = [
  ["driver-query-slow", with_({ nvidia: slow }), "advise", base],
  [
    "gpu-missing",
    with_({
      remembered: {
        file: "/s/cards.json",
        cards: [{ pci_bus_id: "0000:ff:00.0", name: "NVIDIA A100", last_seen_at: "2026-11-01T00:00:00Z" }],
      },
    }),
    "block",
    with_({
      remembered: {
        file: "/s/cards.json",
        cards: base.inventory.gpus.map((gpu) => ({
          pci_bus_id: gpu.pci_bus_id ?? "",
          name: gpu.name,
          last_seen_at: "2026-11-01T00:00:00Z",
        })),
      },
    }),
  ],
  [
    "store-disk",
    with_({ disks: [{ path: "/", space: { total_bytes: 1e12, free_bytes: 9e11, total_inodes: 1_000_000, free_inodes: 5_000 } }] }),
    "block",
    with_({ disks: [{ path: "/", space: { total_bytes: 1e12, free_bytes: 9e11, total_inodes: 1_000_000, free_inodes: 500_000 } }] }),
  ],
  ["mig-model-spans-slices", with_({ models: [{ ...model, devices: 2 }] }), "block", with_({ models: [model] })],
  ["mig-slice-too-small", with_({ models: [{ ...model, need_mb: 50_000 }] }), "block", with_({ models: [model] })],
  ["engine-missing", with_({ engines: [{ ...engine, found: undefined }] }), "block", with_({ engines: [engine] })],
  ["engine-cuda", with_({ engines: [{ ...engine, cuda_version: "13.1" }] }), "block", with_({ engines: [engine] })],
  ["engine-mig", with_({ engines: [{ ...engine, takes_instances: false }] }), "block", with_({ engines: [engine] })],
  [
    "engine-orphan",
    with_({ markedProcesses: [{ pid: 7, engine: "vllm", owned: false, memory_mb: 900, port: 8000 }] }),
    "degrade",
    with_({ markedProcesses: [{ pid: 7, engine: "vllm", owned: true, memory_mb: 900, port: 8000 }] }),
  ],
  [
    "cp-unreachable",
    with_({ controlPlane: { ...plane, failed: { step: "connect to", error: "refused" } } }),
    "block",
    with_({ controlPlane: plane }),
  ],
  [
    "cp-tls",
    with_({ controlPlane: { ...plane, certificates: [{ who: "this node", from_ms: 0, until_ms: base.nowMs + 3 * DAY_MS }] } }),
    "degrade",
    with_({ controlPlane: plane }),
  ],
  [
    "cp-tls",
    with_({ controlPlane: { ...plane, certificates: [{ who: "this node", from_ms: 0, until_ms: base.nowMs - 1 }] } }),
    "block",
    with_({ controlPlane: plane }),
  ],
  [
    "cp-callback",
    with_({ controlPlane: { ...plane, callback: { address: "10.0.0.7:8000", error: "timed out" } } }),
    "block",
    with_({ controlPlane: plane }),
  ],
  ["host-clock", with_({ controlPlane: { ...plane, clock_offset_ms: -3_000 } }), "degrade", with_({ controlPlane: plane })],
  ["host-clock", with_({ controlPlane: { ...plane, clock_offset_ms: 61_000 } }), "block", with_({ controlPlane: plane })],
];

describe.each(ON_FACTS)("%s", (id, failing, severity, passing) => {
  test(`is a problem (${severity}) on facts that show it`, () => {
    expect(judge(failing, id).find((one) => one.result === "problem")?.severity).toBe(severity);
  });

  test("is ok on facts that do not", () => {
    const results = judge(passing, id).map((one) => one.result);
    expect(results.includes("ok")).toBe(true);
    expect(results.includes("problem")).toBe(false);
  });
});

const HEALTHY = [
  "a100-mig-mixed",
  "cpu-container",
  "cpu-only",
  "gb200-domain-up",
  "h100-mig-media",
  "h100-mig-shared",
  "h100-mig-sparse",
  "l40s-pcie-4",
  "rtx4090-desktop",
  "rtxpro6000-mig-graphics",
  "two-fabrics-same-prefix",
];

test.each(HEALTHY)("%s is healthy: no problem, and nothing unknown", (machine) => {
  expect(findings(machine).filter((one) => one.result === "problem" || one.result === "unknown")).toEqual([]);
});

test("two models on disk that are not whole, which nothing here uses, are advice on an otherwise healthy machine", () => {
  expect(findings("h100-nvswitch-8").flatMap((one) => (one.result === "problem" ? [one.id] : []))).toEqual([
    "store-weights",
    "store-weights",
  ]);
  expect(worstProblem(findings("h100-nvswitch-8"))).toBe("advise");
});

test("a weight set that is placed here and not whole blocks its model", () => {
  const facts = all.get("h100-nvswitch-8")?.facts;
  const broken = facts?.inventory.weights.find((one) => one.state === "incomplete");
  if (facts === undefined || broken === undefined) throw new Error("the machine has no such weights any more");
  const found = judge({ ...facts, models: [{ ...model, path: broken.path }] }, "store-weights");
  expect(found.find((one) => subjectText(one.subject) === broken.name)?.severity).toBe("block");
});

test("a broken driver is one problem and not forty", () => {
  for (const machine of ["no-driver", "driver-library-mismatch", "nvidia-smi-hangs", "nvswitch-no-manager", "h100-card-lost"]) {
    expect(findings(machine).filter((one) => one.result === "problem").length).toBe(1);
  }
});

test("every check's dependencies exist, ids are unique, and each explains itself", () => {
  const ids = CHECKS.map((check) => check.id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(CHECKS.flatMap((check) => check.depends_on).filter((id) => !ids.includes(id))).toEqual([]);
  expect(CHECKS.filter((check) => check.explain.length < 120 || check.title.length < 15).map((check) => check.id)).toEqual([]);
});

test("what may not be read is unknown, with what is missing: the kernel log without root", () => {
  const facts = with_({ kernelLog: { kind: "refused", why: "needs root: kernel log" } });
  expect(judge(facts, "gpu-xid").map(({ result, message }) => [result, message])).toEqual([["unknown", "needs root: kernel log"]]);
});

test("a check that throws is unknown and names the bug; the others are judged", () => {
  const broken = { ...(CHECKS[0] ?? never()), id: "broken", depends_on: [], judge: () => never() };
  const found = runChecks([broken, ...CHECKS], base);
  expect(found[0]).toMatchObject({ id: "broken", result: "unknown", message: "this check failed itself, which is a bug in llmgw: thrown" });
  expect(found.length).toBeGreaterThan(CHECKS.length);
});

function never(): never {
  throw new Error("thrown");
}

test("a waiver holds for its subject until its day is over, and is shown with its reason", () => {
  const facts = all.get("thermal-power-brake")?.facts ?? base;
  const run = (subject: string | undefined, until: string | undefined) =>
    runChecks(CHECKS, facts, { only: ["gpu-thermal"], waivers: [{ id: "gpu-thermal", reason: "fan ordered", subject, until }] }).map(
      (one) => one.result,
    );
  expect(run(undefined, undefined)).toEqual(["waived", "ok"]);
  expect(run("gpu 0", "2026-11-30")).toEqual(["waived", "ok"]);
  expect(run("gpu *", "2026-11-29")).toEqual(["problem", "ok"]);
  expect(run("gpu 1", undefined)).toEqual(["problem", "ok"]);
  const [first] = runChecks(CHECKS, facts, { only: ["gpu-thermal"], waivers: [{ id: "gpu-thermal", reason: "fan ordered" }] });
  expect(first?.message).toEndWith("(waived: fan ordered)");
});

/** Words of unions: a parser gives one of them or throws. */
const CLOSED = ["kind", "source", "outcome", "failure", "state", "access", "layout", "format", "migCurrent", "migPending"];
/** What every card has, however damaged its part of the output is. */
const ALWAYS = ["busId", "readable", "lost"];

/** One place of the facts, changed as a damaged machine could: another value of its kind, a list without entries, a fact refused. */
function mutated(value: unknown, path: readonly number[], other: number, within = ""): unknown {
  const [at = 0, ...rest] = path;
  if (Array.isArray(value)) {
    if (value.length === 0 || at % 9 === 8) return [];
    return value.map((one, n) => (n === at % value.length ? mutated(one, rest, other, within) : one));
  }
  if (typeof value !== "object" || value === null) return replaced(value, other);
  if ("kind" in value && ["read", "absent", "refused"].includes(String(value.kind)) && at % 3 > 0) {
    return at % 3 === 1 ? { kind: "absent" } : { kind: "refused", why: "it was refused" };
  }
  const entries = Object.entries(value).filter(([key]) => !CLOSED.includes(key));
  const [key, inner] = entries[at % Math.max(1, entries.length)] ?? ["", undefined];
  if (key === "") return value;
  const gone = within === "cards" && other % 4 === 3 && (typeof inner !== "object" || key === "fabric") && !ALWAYS.includes(key);
  return { ...value, [key]: gone ? undefined : mutated(inner, rest, other, "migDevices" in value || key === "cards" ? "cards" : within) };
}

function replaced(value: unknown, other: number): unknown {
  if (typeof value === "string") return ["", "N/A", "GPU is lost", "(*+?[\\", "0000:ff:1f.7", "\u0000"][other % 6];
  if (typeof value === "number") return [-1, 0, Number.NaN, 2 ** 63, 1e-9, Number.POSITIVE_INFINITY][other % 6];
  return typeof value === "boolean" ? !value : value;
}

test("whatever becomes of the facts, no check throws and no finding is without words", () => {
  const change = fc.tuple(fc.array(fc.nat(400), { minLength: 8, maxLength: 8 }), fc.nat(100));
  fc.assert(
    fc.property(fc.constantFrom(...machines), fc.array(change, { minLength: 1, maxLength: 6 }), (machine, changes) => {
      // The shape stays that of Facts: mutated gives the same keys with values of the same types.
      const facts = changes.reduce<unknown>((before, [path, other]) => mutated(before, path, other), all.get(machine)?.facts) as Facts;
      const found = runChecks(CHECKS, facts);
      expect(found.filter((one) => one.message.includes("bug in llmgw")).map((one) => one.message)).toEqual([]);
      expect(found.filter((one) => one.message === "").map((one) => one.id)).toEqual([]);
    }),
    { numRuns: 600, includeErrorInReport: true },
  );
});

test("an Ethernet port that is up without an address is advice; what could not be read is unknown", () => {
  const hca = { name: "mlx5_0", netdevs: [], ports: [{ num: 1, state: "ACTIVE", phys_state: "LinkUp", link_layer: "Ethernet", lid: 0 }] };
  const port = { ...hca.ports[0], num: 1, gid_prefix: "fe80:0000:0000:0000" };
  const on = (one: Facts["inventory"]["hcas"][number]) => judge(with_({ inventory: { ...base.inventory, hcas: [one] } }), "roce-no-gid");
  expect(on(hca).map((one) => [one.result, one.severity])).toEqual([["problem", "advise"]]);
  expect(on({ ...hca, ports: [port] }).map((one) => one.result)).toEqual(["ok"]);
  const unread = with_({ inventory: { ...base.inventory, warnings: ["mlx5_0: rate cannot be read"] } });
  expect(judge(unread, "host-facts").map((one) => [one.result, one.message])).toEqual([["unknown", "mlx5_0: rate cannot be read"]]);
  expect(judge(base, "host-facts").map((one) => one.result)).toEqual(["ok"]);
});

test("every check is shown failing and passing; host-facts only ever says unknown or ok", () => {
  const shown = new Set([...ON_FAKES, ...ON_FACTS].map(([id]) => id));
  expect(CHECKS.map((check) => check.id).filter((id) => !shown.has(id))).toEqual(["roce-no-gid", "host-facts"]);
});

test("a machine recorded by inventory --record is judged as the machine itself was", async () => {
  using folder = temporaryFolder();
  for (const machine of ["a100-mig-mixed", "nvswitch-no-manager", "secure-boot-rejects"]) {
    const at = join(folder.path, machine);
    expect((await runLlmgw(["inventory", "--machine", machine, "--record", at])).exitCode).toBe(0);
    const summary = (list: readonly Finding[]) =>
      list.map(({ id, result }) => `${id} ${result}`).filter((text) => !text.startsWith("store-"));
    expect(summary((await findingsOf(at)).findings)).toEqual(summary(findings(machine)));
  }
});

test("a recording that holds nothing of what doctor reads gives unknown, and never ok for it", async () => {
  using folder = temporaryFolder();
  const machine = join(import.meta.dir, "../../fakes/machines/l40s-pcie-4");
  cpSync(machine, folder.path, { recursive: true, verbatimSymlinks: true });
  const yaml = readFileSync(join(machine, "machine.yaml"), "utf8")
    .replace("journalctl", "journalctl-of-old")
    .replace("  - /dev/nvidia-caps\n", "");
  writeFileSync(join(folder.path, "machine.yaml"), yaml);
  const found = (await findingsOf(folder.path)).findings.filter((one) => one.id === "gpu-xid");
  expect(found.map(({ result, message }) => [result, message])).toEqual([["unknown", "this recording does not hold it: kernel log"]]);
});

test("the fake machines hold all that doctor asks for", () => {
  const missing = [...all].flatMap(([machine, { facts }]) =>
    JSON.stringify(facts).includes("this recording does not hold it") ? [machine] : [],
  );
  expect(missing).toEqual([]);
});

const l40s = await factsOf("l40s-pcie-4");

/** The first card alone, with fewer lanes than it has, in a slot of so many. */
function narrow(slotWidth: number | undefined): Facts {
  const [card] = l40s.nvidia.query?.cards ?? [];
  if (card === undefined || l40s.pci.kind !== "read") throw new Error("the machine has no cards any more");
  const cards = [{ ...card, pcie: { ...card.pcie, widthCurrent: 8 } }];
  const pci = { kind: "read" as const, value: l40s.pci.value.slice(0, 1).map((one) => ({ ...one, slotWidth })) };
  return { ...l40s, proc: undefined, pci, nvidia: { ...l40s.nvidia, list: undefined, query: { cards } } };
}

test("fewer lanes than the card has are a fault only where the slot has them: a cloud machine shows no slot", () => {
  const results = (slot: number | undefined) => judge(narrow(slot), "gpu-pcie-width").map((one) => one.result);
  expect([results(16), results(8), results(undefined)]).toEqual([["problem"], ["ok"], ["unknown"]]);
});

test("memory without a process is no fault where the processes of others are not visible", async () => {
  const facts = await factsOf("a100-neglected");
  const results = (container: boolean) => judge({ ...facts, container }, "gpu-memory-orphaned").map((one) => one.result);
  expect(results(false)).toContain("problem");
  expect(results(true)).not.toContain("problem");
});

test("a card of which only the list knows is unknown, and not kept out for that alone", async () => {
  const facts = await factsOf("nvidia-smi-hangs");
  const answered = { ...facts, nvidia: { ...facts.nvidia, calls: [] } };
  expect(new Set(judge(answered, "gpu-not-offered").map((one) => one.result))).toEqual(new Set(["unknown"]));
});

test("a node that this user may not open is unknown, and not ok", () => {
  const closed = with_({ closedNodes: ["nvidiactl", "nvidia-caps/nvidia-cap12"] });
  const found = (facts: Facts, id: string) => runChecks(CHECKS, facts, { only: [id] });
  expect(found(base, "driver-device-nodes").map((finding) => finding.result)).toEqual(["ok"]);
  expect(found(closed, "driver-device-nodes")[0]).toMatchObject({ result: "unknown", message: expect.stringContaining("/dev/nvidiactl") });
  const [minor = 0] = base.migMinors.kind === "read" ? Object.values(base.migMinors.value) : [];
  const shut = with_({ closedNodes: [`nvidia-caps/nvidia-cap${minor}`] });
  expect(found(shut, "mig-caps-access").some((finding) => finding.result === "unknown")).toBe(
    found(base, "mig-caps-access").some((finding) => finding.result === "ok"),
  );
});

test("what an Xid means may be said in the configuration", () => {
  const log = all.get("a100-neglected")?.facts ?? base;
  const severities = (xids: Record<string, "block" | "degrade" | "advise" | "ignore">) =>
    runChecks(CHECKS, { ...log, config: { doctor: { xids } } }, { only: ["gpu-xid"] })
      .filter((finding) => finding.result === "problem")
      .map((finding) => finding.severity);
  const [usual] = severities({});
  expect(usual).toBeDefined();
  const number = /Xid (\d+)/.exec(
    runChecks(CHECKS, log, { only: ["gpu-xid"] }).find((finding) => finding.result === "problem")?.message ?? "",
  )?.[1];
  expect(severities({ [number ?? ""]: "advise" })[0]).toBe("advise");
  expect(severities({ [number ?? ""]: "ignore" })).toHaveLength(severities({}).length - 1);
});

test("rights are those of owner, group or others, whichever applies first", () => {
  const user = parseUser("Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t44 109 \n");
  expect(user).toEqual({ uid: 1000, groups: [1000, 44, 109] });
  if (user === undefined) return;
  expect(mayOpen(user, { mode: 0o660, uid: 0, gid: 44 }, 6)).toBe(true);
  expect(mayOpen(user, { mode: 0o660, uid: 0, gid: 45 }, 6)).toBe(false);
  expect(mayOpen(user, { mode: 0o666, uid: 0, gid: 0 }, 6)).toBe(true);
  expect(mayOpen(user, { mode: 0o077, uid: 1000, gid: 44 }, 4)).toBe(false);
  expect(mayOpen(user, { mode: 0o444, uid: 0, gid: 0 }, 4)).toBe(true);
  expect(parseUser("Groups:")).toBeUndefined();
});
