import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import * as v from "valibot";
import {
  byNumber,
  checkIbRoot,
  discoverInfiniband,
  type InfinibandReport,
  parseGidPrefix,
  parseLid,
  parseNodeGuid,
  parseRate,
  parseStateWord,
} from "../../src/discovery/infiniband.ts";
import type { FabricDeclaration } from "../../src/domain/agent-config.ts";
import { Hca, type Port } from "../../src/domain/inventory.ts";
import type { Runner } from "../../src/platform/runner.ts";
import { temporaryFolder } from "../support/folders.ts";
import { createFsRunner } from "../support/fs-runner.ts";
import { damaged, type TreeOptions, treeRunner } from "../support/tree-runner.ts";

const ROOT = "/sys/class/infiniband";

type Tree = Record<string, string | { readonly link: string }>;

interface AdapterFacts {
  readonly busId?: string;
  readonly guid?: string;
  readonly port?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly device?: Readonly<Record<string, string | { readonly link: string }>>;
}

/** One adapter as the kernel lays it out: a link in the class folder, its folder below the PCI function. */
function adapter(name: string, facts: AdapterFacts = {}): Tree {
  const busId = facts.busId ?? "0000:1a:00.0";
  const device = `sys/devices/pci0000:15/${busId}`;
  const folder = `${device}/infiniband/${name}`;
  const port: Record<string, string> = {
    state: "4: ACTIVE",
    phys_state: "5: LinkUp",
    rate: "400 Gb/sec (4X NDR)",
    link_layer: "InfiniBand",
    lid: "0x32",
    lid_mask_count: "0",
    sm_lid: "0x1",
    "gids/0": "fe80:0000:0000:0000:a088:c203:0074:cfda",
    ...facts.port,
  };
  const tree: Tree = {
    [`sys/class/infiniband/${name}`]: { link: `../../devices/pci0000:15/${busId}/infiniband/${name}` },
    [`${folder}/device`]: { link: `../../../${busId}` },
    [`${folder}/fw_ver`]: "28.41.1000\n",
    [`${folder}/board_id`]: "MT_0000000838\n",
    [`${folder}/node_guid`]: `${facts.guid ?? "a088:c203:0074:cfda"}\n`,
    [`${device}/numa_node`]: "1\n",
  };
  for (const [file, content] of Object.entries(facts.device ?? {})) tree[`${device}/${file}`] = content;
  for (const num of facts.ports ?? ["1"]) {
    for (const [file, text] of Object.entries(port)) tree[`${folder}/ports/${num}/${file}`] = `${text}\n`;
  }
  return tree;
}

async function discover(tree: Tree, fabrics: readonly FabricDeclaration[] = [], options: TreeOptions = {}): Promise<InfinibandReport> {
  using folder = temporaryFolder();
  return await discoverInfiniband(treeRunner(folder.path, tree, options), { root: ROOT, fabrics });
}

function fabric(name: string, ...adapters: string[]): FabricDeclaration {
  return { name, adapters };
}

function fabricsOf(report: InfinibandReport): Record<string, string | undefined> {
  return Object.fromEntries(report.hcas.map((hca) => [hca.name, hca.ports[0]?.fabric]));
}

describe("an adapter", () => {
  test("is read whole through its link", async () => {
    const tree = adapter("mlx5_0", { device: { "net/ib1/type": "32", "net/ib0/type": "32" }, busId: "0000:1A:00.0" });
    expect(await discover(tree)).toEqual({
      hcas: [
        {
          name: "mlx5_0",
          numa_node: 1,
          firmware: "28.41.1000",
          board_id: "MT_0000000838",
          node_guid: "a088:c203:0074:cfda",
          pci_bus_id: "0000:1a:00.0",
          netdevs: ["ib0", "ib1"],
          ports: [
            {
              num: 1,
              state: "ACTIVE",
              phys_state: "LinkUp",
              rate_gbps: 400,
              link_layer: "InfiniBand",
              gid_prefix: "fe80:0000:0000:0000",
              lid: 50,
              sm_lid: 1,
            },
          ],
        },
      ],
      warnings: [],
    });
  });

  test("keeps its place in the order of numbers, its ports too", async () => {
    const report = await discover({
      ...adapter("mlx5_10", { busId: "0000:1a:00.0" }),
      ...adapter("mlx5_2", { busId: "0000:1b:00.0", ports: ["10", "2", "old", "02"] }),
    });
    expect(report.hcas.map((hca) => [hca.name, ...hca.ports.map((port) => port.num)])).toEqual([
      ["mlx5_2", 2, 10],
      ["mlx5_10", 1],
    ]);
  });

  test("without a device link, ports or files is listed with what there is", async () => {
    expect(
      await discover({
        "sys/devices/virtual/infiniband/rxe0/fw_ver": "\n",
        "sys/class/infiniband/rxe0": { link: "../../devices/virtual/infiniband/rxe0" },
      }),
    ).toEqual({
      hcas: [{ name: "rxe0", netdevs: [], ports: [] }],
      warnings: [],
    });
  });

  test("whose device link leads nowhere is listed, and that is said", async () => {
    const report = await discover({
      "sys/class/infiniband/mlx5_0/device": { link: "../../../gone" },
      "sys/class/infiniband/mlx5_0/fw_ver": "1\n",
    });
    expect(report.hcas).toEqual([{ name: "mlx5_0", firmware: "1", netdevs: [], ports: [] }]);
    expect(report.warnings).toEqual(["adapter mlx5_0: its device link leads nowhere, so its place on the bus is not known"]);
  });

  test("whose device is no PCI function has no bus id, and NUMA node -1 is unknown", async () => {
    const report = await discover(adapter("hns_0", { busId: "HISI00D1:00", device: { numa_node: "-1\n" } }));
    expect(report.hcas[0]).not.toHaveProperty("pci_bus_id");
    expect(report.hcas[0]).not.toHaveProperty("numa_node");
  });
});

describe("the class folder", () => {
  test("that is missing or empty is no fault", async () => {
    expect(await discover({})).toEqual({ hcas: [], warnings: [] });
    expect(await discover({ "sys/class/infiniband/.hidden/fw_ver": "1", "sys/class/infiniband/README": "text" })).toEqual({
      hcas: [],
      warnings: [],
    });
  });

  test("whose links lead nowhere has no adapters and one warning", async () => {
    const report = await discover({
      "sys/class/infiniband/mlx5_0": { link: "../../devices/gone/mlx5_0" },
      "sys/class/infiniband/mlx5_1": { link: "../../devices/gone/mlx5_1" },
    });
    expect(report.hcas).toEqual([]);
    expect(report.warnings).toHaveLength(1);
    expect(report.warnings[0]).toStartWith("mlx5_0, mlx5_1: listed in /sys/class/infiniband, but the folder behind is not there");
  });

  test("that may not be listed costs the adapters and nothing else", async () => {
    const report = await discover({}, [], { fails: { [ROOT]: "denied" } });
    expect(report).toEqual({ hcas: [], warnings: [`adapters could not be listed: ${ROOT}: denied`] });
  });

  test("that a person named is checked in words", async () => {
    using folder = temporaryFolder();
    const runner = treeRunner(folder.path, { "class/mlx5_0/fw_ver": "1", file: "" }, { fails: { "/closed": "denied" } });
    expect(await checkIbRoot(runner, "/class")).toBeUndefined();
    expect(await checkIbRoot(runner, "/nowhere")).toBe("there is no folder /nowhere");
    expect(await checkIbRoot(runner, "/file")).toBe("/file is not a folder");
    expect(await checkIbRoot(runner, "/closed")).toBe("/closed: denied");
  });
});

describe("a file that fails to read", () => {
  const at = `${ROOT}/mlx5_0`;

  test("costs its own field, and an adapter has one warning for all of them", async () => {
    const report = await discover({ ...adapter("mlx5_0"), ...adapter("mlx5_1", { busId: "0000:1b:00.0" }) }, [], {
      fails: { [`${at}/fw_ver`]: "denied", [`${at}/ports/1/state`]: "denied", [`${at}/ports/1/lid`]: "io", [`${at}/device/net`]: "denied" },
    });
    const [first, second] = report.hcas;
    expect(first).not.toHaveProperty("firmware");
    expect(first?.ports[0]).not.toHaveProperty("state");
    expect(first?.ports[0]).not.toHaveProperty("lid");
    expect(first?.ports[0]?.sm_lid).toBe(1);
    expect(second?.ports[0]?.state).toBe("ACTIVE");
    expect(report.warnings).toEqual(["adapter mlx5_0: not readable: device/net, fw_ver, ports/1/state (denied); ports/1/lid (io)"]);
  });

  test("is no news where nothing is plugged in: rate says EINVAL then", async () => {
    const report = await discover(adapter("mlx5_0"), [], { fails: { [`${at}/ports/1/rate`]: "io" } });
    expect(report.hcas[0]?.ports[0]).not.toHaveProperty("rate_gbps");
    expect(report.warnings).toEqual([]);
  });

  test("because the adapter hangs is the last that is asked of its driver, and the others are whole", async () => {
    using folder = temporaryFolder();
    const tree = { ...adapter("mlx5_0", { ports: ["1", "2"] }), ...adapter("mlx5_1", { busId: "0000:1b:00.0" }) };
    const runner = treeRunner(folder.path, tree, { fails: { [`${at}/ports/1/state`]: "timeout" } });
    const report = await discoverInfiniband(runner, { root: ROOT, fabrics: [] });
    expect(report.hcas[0]?.firmware).toBe("28.41.1000");
    expect(report.hcas[0]?.ports).toEqual([1, 2].map((num) => ({ num, link_layer: "InfiniBand", gid_prefix: "fe80:0000:0000:0000" })));
    expect(report.hcas[1]?.ports[0]?.lid).toBe(50);
    expect(runner.reads).not.toContain(`${at}/ports/1/phys_state`);
    expect(report.warnings).toEqual(["adapter mlx5_0 does not answer: ports/1/state: 2 s have passed, so what else it says is not known"]);
  });

  test("because the caller gave up stops everything", async () => {
    expect(discover(adapter("mlx5_0"), [], { fails: { [`${at}/fw_ver`]: "aborted" } })).rejects.toThrow("aborted");
  });
});

describe("texts of the kernel", () => {
  test.each([
    ["400 Gb/sec (4X NDR)", 400],
    ["2.5 Gb/sec (1X SDR)\n", 2.5],
    ["10 Gb/sec (4X)", 10],
    ["Gb/sec", undefined],
    ["<unknown>", undefined],
    ["", undefined],
    ["-1 Gb/sec", undefined],
    ["99999999 Gb/sec", undefined],
  ])("rate %p is %p", (text, rate) => {
    expect(parseRate(text)).toBe(rate);
  });

  test.each([
    ["4: ACTIVE\n", "ACTIVE"],
    ["5: LinkUp", "LinkUp"],
    ["7: Phy Test", "Phy Test"],
    ["0: <unknown>", "<unknown>"],
    ["4:", undefined],
    ["ACTIVE", undefined],
  ])("state %p is %p", (text, word) => {
    expect(parseStateWord(text)).toBe(word);
  });

  test.each([
    ["0x32", 50],
    ["0xffff\n", 65_535],
    ["0x0", 0],
    ["0x12345", 74_565],
    ["50", undefined],
    ["0x", undefined],
    ["0x123456789", undefined],
  ])("LID %p is %p", (text, lid) => {
    expect(parseLid(text)).toBe(lid);
  });

  test.each([
    ["fe80:0000:0000:0000:a088:c203:0074:cfda", "fe80:0000:0000:0000"],
    ["fe80:0000:0000:00c6:0000:0000:0000:0000\n", "fe80:0000:0000:00c6"],
    ["0000:0000:0000:0000:0000:0000:0000:0000", undefined],
    ["0000:0000:0000:0000:0000:ffff:0a00:0001", undefined],
    ["fe80::1", undefined],
  ])("GID %p has the prefix %p", (text, prefix) => {
    expect(parseGidPrefix(text)).toBe(prefix);
  });

  test("a node GUID is kept as printed, a cut one is none", () => {
    expect(parseNodeGuid("0000:0000:0000:0000\n")).toBe("0000:0000:0000:0000");
    expect(parseNodeGuid("a088:c203:0074")).toBeUndefined();
  });

  test("names are ordered by their numbers, and the order holds for any names", () => {
    expect(["mlx5_10", "mlx5_bond_0", "mlx5_2", "ibp26s0", "mlx5_1"].sort(byNumber)).toEqual([
      "ibp26s0",
      "mlx5_1",
      "mlx5_2",
      "mlx5_10",
      "mlx5_bond_0",
    ]);
    const name = fc.string({ unit: fc.constantFrom(..."ab_019") });
    fc.assert(
      fc.property(name, name, name, (a, b, c) => {
        expect(Math.sign(byNumber(a, b)) + Math.sign(byNumber(b, a))).toBe(0);
        if (byNumber(a, b) <= 0 && byNumber(b, c) <= 0) expect(byNumber(a, c)).toBeLessThanOrEqual(0);
        if (a !== b) expect(byNumber(a, b)).not.toBe(0);
      }),
    );
  });
});

describe("a fabric", () => {
  const two: Tree = {
    ...adapter("mlx5_0", { busId: "0000:1a:00.0", guid: "a088:c203:0074:0001", port: { lid: "0x1" } }),
    ...adapter("mlx5_1", { busId: "0000:1b:00.0", guid: "a088:c203:0074:0002", port: { lid: "0x2" } }),
  };

  test.each(["mlx5_1", "0000:1b:00.0", "00000000:1B:00.0", "a088:c203:0074:0002", "A088C20300740002", "0xa088c20300740002"])(
    "is declared by %p",
    async (entry) => {
      const report = await discover(two, [fabric("rail1", entry)]);
      expect(fabricsOf(report)).toEqual({ mlx5_0: undefined, mlx5_1: "rail1" });
      expect(report.warnings).toEqual([]);
    },
  );

  test("on all ports of the adapter, and never guessed where none is declared", async () => {
    const tree = adapter("mlx4_0", { ports: ["1", "2"], port: { state: "1: DOWN" } });
    const labelled = await discover(tree, [fabric("rail0", "mlx4_0")]);
    expect(labelled.hcas[0]?.ports.map((port) => port.fabric)).toEqual(["rail0", "rail0"]);
    expect((await discover(tree)).hcas[0]?.ports.some((port) => "fabric" in port)).toBe(false);
  });

  test("whose adapter is not here is told, and mlx5_1 does not mean mlx5_10", async () => {
    const report = await discover(adapter("mlx5_10"), [fabric("rail1", "mlx5_1", "0000:99:00.0", "0000:0000:0000:0000", "mlx5_10")]);
    expect(report.warnings).toEqual(['fabric "rail1" in agent.yaml: no adapter mlx5_1, 0000:99:00.0, 0000:0000:0000:0000 on this node']);
    expect(fabricsOf(report)).toEqual({ mlx5_10: "rail1" });
  });

  test("is not written to an adapter that is declared on two", async () => {
    const report = await discover(two, [fabric("a", "mlx5_0", "mlx5_1"), fabric("b", "0000:1a:00.0")]);
    expect(fabricsOf(report)).toEqual({ mlx5_0: undefined, mlx5_1: "a" });
    expect(report.warnings).toEqual(['adapter mlx5_0 is declared on the fabrics "a" and "b" in agent.yaml: it is taken to be on neither']);
    expect((await discover(two, [fabric("a", "mlx5_0"), fabric("a", "0000:1a:00.0")])).warnings).toEqual([]);
  });

  test("declared by PCI function means the adapter for traffic, not the one for management beside it", async () => {
    const tree = { ...adapter("mlx5_0"), ...adapter("smi1", { port: { "gids/0": "", lid: "" }, ports: ["1", "2"] }) };
    expect(fabricsOf(await discover(tree, [fabric("rail0", "0000:1a:00.0")]))).toEqual({ mlx5_0: "rail0", smi1: undefined });
    expect(fabricsOf(await discover(tree, [fabric("rail0", "smi1")]))).toEqual({ mlx5_0: undefined, smi1: "rail0" });
  });

  const contradictions: readonly [string, Readonly<Record<string, string>>, Readonly<Record<string, string>>, string | undefined][] = [
    ["with equal prefix and SM LID proves nothing", { lid: "0x1" }, { lid: "0x2" }, undefined],
    [
      "cannot have two prefixes",
      { lid: "0x1" },
      { lid: "0x2", "gids/0": "fec0:0000:0000:0002:a088:c203:0074:cfda" },
      "its GID prefixes differ (fe80:0000:0000:0000: mlx5_0 port 1; fec0:0000:0000:0002: mlx5_1 port 1): different subnets",
    ],
    [
      "cannot have two subnet managers for long",
      { lid: "0x1", sm_lid: "0x1" },
      { lid: "0x2", sm_lid: "0x168" },
      "its subnet managers differ (SM LID 1: mlx5_0 port 1; SM LID 360: mlx5_1 port 1): different subnets, unless one is handing over to another at this moment",
    ],
    [
      "cannot give one LID twice",
      { lid: "0x4" },
      { lid: "0x4" },
      "LID 4 is given to both mlx5_0 port 1 and mlx5_1 port 1: a LID is unique in a subnet, so these are different subnets",
    ],
    [
      "cannot give a LID out of another port's range",
      { lid: "0x4", lid_mask_count: "2" },
      { lid: "0x7" },
      "LID 7 is given to both mlx5_0 port 1 and mlx5_1 port 1: a LID is unique in a subnet, so these are different subnets",
    ],
    [
      "cannot have two link layers",
      { lid: "0x1" },
      { link_layer: "Ethernet", lid: "0x0", sm_lid: "0x0" },
      "its link layers differ (InfiniBand: mlx5_0 port 1; Ethernet: mlx5_1 port 1), so it is not one fabric",
    ],
    ["is not judged by a dead port's old numbers", { lid: "0x4" }, { lid: "0x4", sm_lid: "0x9", state: "1: DOWN" }, undefined],
    ["is not judged by a port without LID or SM", { lid: "0xffff" }, { lid: "0xffff", sm_lid: "0x0" }, undefined],
    [
      "is not judged by RoCE addresses",
      { link_layer: "Ethernet", lid: "0x0", sm_lid: "0x0" },
      { link_layer: "Ethernet", lid: "0x0", sm_lid: "0x0", "gids/0": "2001:0db8:0000:0000:a088:c203:0074:cfda" },
      undefined,
    ],
  ];
  test.each(contradictions)("%s", async (_fact, first, second, warning) => {
    const tree = { ...adapter("mlx5_0", { port: first }), ...adapter("mlx5_1", { busId: "0000:1b:00.0", port: second }) };
    const report = await discover(tree, [fabric("rail0", "mlx5_0", "mlx5_1")]);
    expect(report.warnings).toEqual(warning === undefined ? [] : [`fabric "rail0" in agent.yaml: ${warning}`]);
    expect(fabricsOf(report)).toEqual({ mlx5_0: "rail0", mlx5_1: "rail0" });
    const apart = await discover(tree, [fabric("rail0", "mlx5_0"), fabric("rail1", "mlx5_1")]);
    expect(apart.warnings).toEqual([]);
  });

  test("is not proven wrong by a virtual function that shares its card's LID", async () => {
    const tree = {
      ...adapter("mlx5_0", { busId: "0000:82:00.0" }),
      ...adapter("mlx5_1", { busId: "0000:82:00.1", device: { physfn: { link: "../0000:82:00.0" } } }),
    };
    expect((await discover(tree, [fabric("rail0", "mlx5_0", "mlx5_1")])).warnings).toEqual([]);
  });
});

test("no damage to any file crashes or makes a number that is none", async () => {
  using folder = temporaryFolder();
  const share = fc.double({ min: 0, max: 1, noNaN: true });
  let damage = { keep: 1, at: 0, xor: 0 };
  const tree = { ...adapter("mlx5_0"), ...adapter("mlx5_1", { busId: "0000:1b:00.0" }) };
  const runner = treeRunner(folder.path, tree, { garble: (bytes) => damaged(bytes, damage) });
  await fc.assert(
    fc.asyncProperty(share, share, fc.nat(255), async (keep, at, xor) => {
      damage = { keep, at, xor };
      const report = await discoverInfiniband(runner, { root: ROOT, fabrics: [fabric("rail0", "mlx5_0", "mlx5_1")] });
      expect(v.is(v.array(Hca), report.hcas)).toBe(true);
      expect(JSON.stringify(report.hcas)).not.toContain("null");
    }),
    { numRuns: 200 },
  );
});

interface RecordedPort {
  readonly num: number;
  readonly state: string | null;
  readonly physState: string | null;
  readonly rateGbps: number | null;
  readonly linkLayer: string | null;
  readonly gidPrefix: string | null;
  readonly lid: number | null;
  readonly smLid: number | null;
}

interface RecordedHca {
  readonly name: string;
  readonly fw: string | null;
  readonly boardId: string | null;
  readonly nodeGuid: string | null;
  readonly numaNode: number | null;
  readonly pciAddress: string | null;
  readonly netdevs: readonly string[] | null;
  readonly ports: readonly RecordedPort[];
}

interface RecordedCase {
  readonly expect: { readonly hcas: readonly RecordedHca[] };
}

function expectedPort(port: RecordedPort): Record<keyof Omit<Port, "fabric">, unknown> {
  return {
    num: port.num,
    state: port.state ?? undefined,
    phys_state: port.physState ?? undefined,
    rate_gbps: port.rateGbps ?? undefined,
    link_layer: port.linkLayer ?? undefined,
    gid_prefix: port.gidPrefix ?? undefined,
    lid: port.lid ?? undefined,
    sm_lid: port.smLid ?? undefined,
  };
}

/** Stricter than it need be: what a careful person does not find is not reported either. */
function expectedHca(hca: RecordedHca): { readonly name: string } & Record<Exclude<keyof Hca, "name">, unknown> {
  return {
    name: hca.name,
    firmware: hca.fw ?? undefined,
    board_id: hca.boardId ?? undefined,
    node_guid: hca.nodeGuid ?? undefined,
    numa_node: hca.numaNode ?? undefined,
    pci_bus_id: hca.pciAddress?.toLowerCase() ?? undefined,
    netdevs: [...(hca.netdevs ?? [])].sort(),
    ports: hca.ports.map(expectedPort),
  };
}

describe("recorded trees", () => {
  const recorded = join(import.meta.dir, "../../../shared/recorded/sysfs");
  const cases = existsSync(recorded)
    ? readdirSync(recorded)
        .filter((name) => name.endsWith(".sysfs"))
        .map((name) => name.slice(0, -".sysfs".length))
        .sort()
    : [];

  async function unpacked(name: string, folder: string): Promise<Runner> {
    const { unpack }: { readonly unpack: (manifest: string, root: string) => void } = await import(join(recorded, "unpack.ts"));
    unpack(readFileSync(join(recorded, `${name}.sysfs`), "utf8"), join(folder, "sys"));
    return createFsRunner(folder);
  }

  // The largest tree has thousands of files to lay out: slow on a busy disk.
  test.skipIf(cases.length === 0).each(cases.length === 0 ? ["(not here)"] : cases)(
    "%s is read as a careful person reads it",
    async (name) => {
      using folder = temporaryFolder();
      const found = await discoverInfiniband(await unpacked(name, folder.path), { root: ROOT, fabrics: [] });
      const { expect: expected }: RecordedCase = JSON.parse(readFileSync(join(recorded, `${name}.json`), "utf8"));
      const hcas: readonly { readonly name: string }[] = found.hcas;
      expect(hcas).toEqual(expected.hcas.map(expectedHca).sort((a, b) => byNumber(a.name, b.name)));
    },
    60_000,
  );

  const known = (name: string): boolean => !cases.includes(name);

  test.skipIf(known("same-lid-on-two-rails"))("two rails that look alike are told apart by a LID that both give out", async () => {
    using folder = temporaryFolder();
    const runner = await unpacked("same-lid-on-two-rails", folder.path);
    const { hcas } = await discoverInfiniband(runner, { root: ROOT, fabrics: [] });
    const fabrics = [fabric("rail0", ...hcas.map((hca) => hca.name))];
    expect((await discoverInfiniband(runner, { root: ROOT, fabrics })).warnings).toHaveLength(1);
  });

  test.skipIf(known("sriov-pf-and-vfs"))("virtual functions of one card are no contradiction", async () => {
    using folder = temporaryFolder();
    const runner = await unpacked("sriov-pf-and-vfs", folder.path);
    const fabrics = [fabric("rail0", "mlx5_0", "mlx5_1", "mlx5_2")];
    expect((await discoverInfiniband(runner, { root: ROOT, fabrics })).warnings).toEqual([]);
  });
});
