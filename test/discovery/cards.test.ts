import { expect, test } from "bun:test";
import { type CardSources, type Devices, joinCards, joinDevices } from "../../src/discovery/cards.ts";
import { parseList } from "../../src/discovery/nvidia-smi/list.ts";
import { parseQuery } from "../../src/discovery/nvidia-smi/query.ts";
import { parseTopology } from "../../src/discovery/nvidia-smi/topology.ts";
import { listText, migUuid, NAME, processText, queryText, type SmiCard, smiUuid, topologyText } from "../support/smi-texts.ts";

interface Said {
  readonly list?: readonly SmiCard[] | string;
  readonly query?: readonly SmiCard[] | string;
  readonly topology?: string;
  readonly queryProblem?: string;
  readonly places?: CardSources["places"];
}

function sources(said: Said): CardSources {
  const list = typeof said.list === "object" ? listText(said.list) : said.list;
  const query = typeof said.query === "object" ? queryText(said.query) : said.query;
  return {
    list: list === undefined ? undefined : parseList(list),
    query: query === undefined ? undefined : parseQuery(query),
    queryProblem: said.queryProblem,
    topology: said.topology === undefined ? undefined : parseTopology(said.topology),
    places: said.places ?? new Map(),
  };
}

function join(said: Said): Devices {
  return joinDevices(sources(said));
}

/** `[printed index, n of the card in the XML]`. */
function pairs(said: Said): readonly (readonly [number | undefined, number | undefined])[] {
  const { list, query } = sources(said);
  return joinCards(list, query).map((card) => [card.index, card.raw?.minor] as const);
}

/** Rows of a matrix in which every card reaches every other over so many links. */
function meshed(count: number, links = 18): string {
  return topologyText(
    Array.from({ length: count }, (_, from) => [
      ...Array.from({ length: count }, (_, to) => (from === to ? " X " : `NV${links}`)),
      "0-7",
      "0",
      "",
      "N/A",
    ]),
  );
}

const INSTANCES = [
  { device: 0, gi: 9, ci: 0, profile: "3g.40gb", memoryMb: 40448 },
  { device: 2, gi: 2, ci: 0, profile: "1g.10gb", memoryMb: 9984 },
];

test("list and XML in differing order are joined by UUID", () => {
  expect(
    pairs({
      list: [
        { n: 4, index: 0 },
        { n: 3, index: 1 },
        { n: 5, index: 2 },
      ],
      query: [{ n: 3 }, { n: 5 }, { n: 4 }],
    }),
  ).toEqual([
    [0, 4],
    [1, 3],
    [2, 5],
  ]);
});

test("cards that share one UUID are joined in order, the others by UUID", () => {
  const uuid = smiUuid(0);
  const twins = [
    { n: 1, uuid },
    { n: 2, uuid },
  ];
  expect(pairs({ list: [...twins, { n: 7, index: 5 }], query: [{ n: 7 }, ...twins] })).toEqual([
    [1, 1],
    [2, 2],
    [5, 7],
  ]);
});

test("cards that share one UUID are not joined at all where their numbers differ", () => {
  const uuid = smiUuid(0);
  const list = [
    { n: 1, uuid },
    { n: 2, uuid },
    { n: 3, uuid },
  ];
  expect(pairs({ list, query: list.slice(1) }).slice(0, 3)).toEqual([
    [1, undefined],
    [2, undefined],
    [3, undefined],
  ]);
});

test("cards without a UUID on one side are joined in order where the numbers agree", () => {
  expect(pairs({ list: [{ n: 0, uuid: "N/A" }, { n: 1 }], query: [{ n: 0 }, { n: 1 }] })).toEqual([
    [0, 0],
    [1, 1],
  ]);
});

test("a card that the XML leaves out keeps its place and is not healthy", () => {
  const { gpus, unusable_cards } = join({ list: [{ n: 0 }, { n: 1 }, { n: 2 }], query: [{ n: 2 }, { n: 0 }] });
  expect(gpus.map((gpu) => [gpu.index, gpu.uuid, gpu.memory_total_mb, gpu.health.ok])).toEqual([
    [0, smiUuid(0), 81559, true],
    [1, smiUuid(1), undefined, false],
    [2, smiUuid(2), 81559, true],
  ]);
  expect(unusable_cards).toEqual([]);
});

test("one missing and one unknown card are two cards and never one, since both say who they are", () => {
  const devices = join({ list: [{ n: 0 }, { n: 1 }], query: [{ n: 0 }, { n: 8 }] });
  const one = devices.gpus.find((gpu) => gpu.index === 1);
  expect([one?.uuid, one?.memory_total_mb]).toEqual([smiUuid(1), undefined]);
});

test("a card that only the XML knows is not offered, since its index is not known", () => {
  const devices = join({ list: [{ n: 0 }], query: [{ n: 0 }, { n: 1 }] });
  expect(devices.gpus.map((gpu) => gpu.index)).toEqual([0]);
  expect(devices.unusable_cards).toEqual([{ uuid: smiUuid(1), name: NAME, pci_bus_id: "0000:11:00.0", reason: "its index is not known" }]);
});

test("without a list the order of the XML is the index", () => {
  const { gpus, warnings } = join({ query: [{ n: 5 }, { n: 2 }] });
  expect(gpus.map((gpu) => [gpu.index, gpu.label, gpu.uuid, gpu.class, gpu.compute_capability])).toEqual([
    [0, "0", smiUuid(5), "h100-80g", "9.0"],
    [1, "1", smiUuid(2), "h100-80g", "9.0"],
  ]);
  expect(warnings).toEqual([]);
});

test("without the XML cards and instances are named and not healthy, and nothing is made up", () => {
  const { gpus } = join({ list: [{ n: 0 }, { n: 1, instances: INSTANCES }], queryProblem: "its state is not known: it hangs" });
  expect(gpus.map((gpu) => [gpu.label, gpu.health])).toEqual(
    ["0", "1/mig0", "1/mig2"].map((label) => [label, { ok: false, problems: ["its state is not known: it hangs"] }]),
  );
  expect(gpus[0]).toEqual({
    index: 0,
    label: "0",
    uuid: smiUuid(0),
    name: NAME,
    class: "h100-80g",
    compute_capability: "9.0",
    health: { ok: false, problems: ["its state is not known: it hangs"] },
  });
  expect(gpus[1]).not.toHaveProperty("memory_total_mb");
});

test("instances keep their indexes with holes and take ids, memory and processes from the XML", () => {
  const processes = [
    processText(11, "a", "100 MiB", "9", "0"),
    processText(12, "b", "N/A", "2", "0"),
    processText(13, "c", "7 MiB", "2", "1"),
    processText(14, "d", "7 MiB"),
  ].join("");
  const card = { n: 3, instances: INSTANCES, processes };
  const { gpus, unusable_cards, warnings } = join({ list: [card], query: [card] });
  expect(gpus.map((gpu) => [gpu.index, gpu.label, gpu.uuid, gpu.class, gpu.memory_total_mb, gpu.mig])).toEqual([
    [
      1300,
      "3/mig0",
      migUuid(3, 0),
      "h100-80g-mig-3g.40gb",
      40448,
      { card: 3, instance: 0, profile: "3g.40gb", gpu_instance_id: 9, compute_instance_id: 0 },
    ],
    [
      1302,
      "3/mig2",
      migUuid(3, 2),
      "h100-80g-mig-1g.10gb",
      9984,
      { card: 3, instance: 2, profile: "1g.10gb", gpu_instance_id: 2, compute_instance_id: 0 },
    ],
  ]);
  expect(gpus.map((gpu) => gpu.processes)).toEqual([[{ pid: 11, name: "a", memory_mb: 100 }], [{ pid: 12, name: "b" }]]);
  expect(gpus.every((gpu) => gpu.health.ok && gpu.utilization_pct === undefined)).toBe(true);
  expect([unusable_cards, warnings]).toEqual([[], []]);
});

test("compute instances of one GPU instance have the processes of their own", () => {
  const instances = [
    { device: 0, gi: 1, ci: 0, profile: "1c.3g.40gb" },
    { device: 1, gi: 1, ci: 1, profile: "1c.3g.40gb" },
  ];
  const processes = processText(11, "a", "1 MiB", "1", "0") + processText(12, "b", "1 MiB", "1", "1");
  const { gpus } = join({ list: [{ n: 0, instances }], query: [{ n: 0, instances, processes }] });
  expect(gpus.map((gpu) => gpu.processes?.map((process) => process.pid))).toEqual([[11], [12]]);
});

test("an instance that only -L shows is offered to nobody, and one that only the XML shows has no UUID to be offered by", () => {
  const [first, second] = INSTANCES;
  if (first === undefined || second === undefined) throw new Error("two instances are given");
  const { gpus, warnings } = join({ list: [{ n: 0, instances: [first] }], query: [{ n: 0, instances: [second] }] });
  expect(gpus.map((gpu) => [gpu.label, gpu.memory_total_mb, gpu.health])).toEqual([
    ["0/mig0", undefined, { ok: false, problems: ["nvidia-smi -q -x does not show this instance, though -L lists it"] }],
  ]);
  expect(warnings).toEqual(["card 0: 1 MIG instances whose profile and UUID the driver does not tell; they are not offered"]);
});

test("without a list a carved card is not offered whole", () => {
  const { gpus, warnings } = join({ query: [{ n: 0, instances: INSTANCES }, { n: 1 }] });
  expect(gpus.map((gpu) => gpu.label)).toEqual(["1"]);
  expect(warnings).toHaveLength(1);
});

test("the old form of a UUID gives the ids, and its driver is too old to offer instances", () => {
  const list = `${listText([{ n: 0 }])}  MIG 1g.5gb Device 0: (UUID: MIG-${smiUuid(0)}/9/0)\n`;
  const [first] = INSTANCES;
  const query = [{ n: 0, instances: first === undefined ? [] : [first] }];
  const [gpu] = join({ list, query }).gpus;
  expect(gpu?.mig).toMatchObject({ gpu_instance_id: 9, compute_instance_id: 0 });
  expect(gpu?.health.problems).toEqual(["its UUID has the form of a driver before R470: the driver is too old to offer instances"]);
  const [other] = join({ list: list.replace("/9/0", "/4/0"), query }).gpus;
  expect(other?.health.problems).toContain("-L and -q -x disagree on its GPU instance or compute instance");
});

test("a card in MIG mode with nothing carved can run nothing", () => {
  const reason = "MIG is on but nothing is carved: the card can run nothing";
  const { gpus, unusable_cards } = join({ list: [{ n: 0 }, { n: 1 }], query: [{ n: 0, mig: "Enabled" }, { n: 1 }] });
  expect(gpus.map((gpu) => gpu.label)).toEqual(["1"]);
  expect(unusable_cards).toEqual([{ index: 0, uuid: smiUuid(0), name: NAME, pci_bus_id: "0000:10:00.0", reason }]);
  const leaving = join({ list: [{ n: 0 }], query: [{ n: 0, mig: "Enabled/Disabled" }] });
  expect(leaving.unusable_cards[0]?.reason).toBe(`${reason}; MIG will be disabled after the next reset`);
});

test("a card whose MIG mode is about to change is whole, or carved, as it is now, and not healthy", () => {
  const whole = join({ list: [{ n: 0 }], query: [{ n: 0, mig: "Disabled/Enabled" }] });
  expect(whole.gpus.map((gpu) => [gpu.label, gpu.health.ok])).toEqual([["0", false]]);
  const card = { n: 0, instances: INSTANCES, mig: "Enabled/Disabled" };
  const carved = join({ list: [card], query: [card] });
  expect(carved.gpus.map((gpu) => [gpu.label, gpu.health.ok])).toEqual([
    ["0/mig0", false],
    ["0/mig2", false],
  ]);
});

test("a card with a fault hands it to its instances, and a fault of one instance stays there", () => {
  const card = { n: 0, instances: INSTANCES };
  const query = queryText([card]);
  const sick = query.replace("<sram_uncorrectable>0", "<sram_uncorrectable>3");
  expect(join({ list: [card], query: sick }).gpus.map((gpu) => gpu.health.problems)).toEqual([
    ["3 uncorrectable SRAM errors in this instance"],
    [],
  ]);
  const reset = { ...card, more: "<gpu_recovery_action>GPU Reset</gpu_recovery_action>" };
  expect(join({ list: [card], query: [reset] }).gpus.map((gpu) => gpu.health.ok)).toEqual([false, false]);
});

test("a lost card is unusable, and is nobody's peer", () => {
  const lost = { n: 1, more: "<remapped_rows>GPU is lost</remapped_rows>" };
  const { gpus, unusable_cards } = join({ list: [{ n: 0 }, { n: 1 }, { n: 2 }], query: [{ n: 0 }, lost, { n: 2 }], topology: meshed(3) });
  expect(gpus.map((gpu) => [gpu.index, gpu.nvlink_peers, gpu.nvlinks])).toEqual([
    [0, [2], { 2: 18 }],
    [2, [0], { 0: 18 }],
  ]);
  expect(unusable_cards.map((card) => [card.index, card.reason])).toEqual([
    [1, "the card is lost: it has fallen off the bus or does not answer; reboot the node"],
  ]);
});

test("a carved card is nobody's peer and its instances have none", () => {
  const carved = { n: 1, instances: INSTANCES };
  const { gpus } = join({ list: [{ n: 0 }, carved, { n: 2 }], query: [{ n: 0 }, carved, { n: 2 }], topology: meshed(3) });
  expect(gpus.map((gpu) => [gpu.label, gpu.nvlink_peers])).toEqual([
    ["0", [2]],
    ["1/mig0", undefined],
    ["1/mig2", undefined],
    ["2", [0]],
  ]);
});

test("a card that -L names only in a sentence is unusable, once", () => {
  const sentence = "Unable to determine the device handle for GPU1: 0000:11:00.0: Unknown Error";
  const list = `${sentence}\n${sentence}\n${listText([{ n: 0 }, { n: 2 }])}`;
  const { gpus, unusable_cards } = join({ list, query: [{ n: 0 }, { n: 2 }] });
  expect(gpus.map((gpu) => gpu.index)).toEqual([0, 2]);
  expect(unusable_cards).toEqual([{ index: 1, pci_bus_id: "0000:11:00.0", reason: sentence }]);
});

test("the NUMA node, CPUs and adapters come from the matrix, and from the bus where it says nothing", () => {
  const row = [" X ", "PXB", "SYS", "0-7,32-39", "1", "", "N/A"];
  const place = { numa_node: 3, cpu_affinity: "8-15", nearest_hcas: ["mlx5_9"] };
  const places = new Map([["0000:10:00.0", place]]);
  const card = [{ n: 0 }];
  expect(join({ list: card, query: card, topology: topologyText([row], ["mlx5_0", "mlx5_1"]), places }).gpus[0]).toMatchObject({
    numa_node: 1,
    cpu_affinity: "0-7,32-39",
    nearest_hcas: ["mlx5_0"],
    nvlink_peers: [],
  });
  expect(join({ list: card, query: card, places }).gpus[0]).toMatchObject(place);
  const container = topologyText([[" X ", "", "0,3-9", "", "2"]]);
  expect(join({ list: card, query: card, topology: container, places }).gpus[0]).toMatchObject(place);
  expect(join({ list: card, query: card }).gpus[0]).not.toHaveProperty("nvlink_peers");
});

test("adapters across the sockets are none near", () => {
  const topology = topologyText([[" X ", "SYS", "0-7", "0", "", "N/A"]], ["mlx5_0"]);
  expect(join({ list: [{ n: 0 }], query: [{ n: 0 }], topology }).gpus[0]?.nearest_hcas).toEqual([]);
});

test("a domain is named only by a cluster that is not zero, and only once it is joined", () => {
  const fabric = (state: string, cluster: string): SmiCard => ({
    n: 0,
    more: `<fabric><state>${state}</state><status>Success</status><cliqueId>7</cliqueId><clusterUuid>${cluster}</clusterUuid></fabric>`,
  });
  const domain = (state: string, cluster: string): unknown => join({ query: [fabric(state, cluster)] }).gpus[0]?.nvlink_domain;
  const cluster = "5eed0000-0000-4000-8000-0000000000aa";
  expect(domain("Completed", cluster)).toEqual({ state: "completed", status: "success", cluster_uuid: cluster, clique_id: 7 });
  expect(domain("Completed", "00000000-0000-0000-0000-000000000000")).toEqual({ state: "completed", status: "success" });
  expect(domain("In Progress", cluster)).toMatchObject({ state: "in_progress" });
  expect(domain("In Progress", cluster)).not.toHaveProperty("cluster_uuid");
  expect(domain("N/A", cluster)).toBeUndefined();
});

test("a product that is not known is offered under a class of its own, with a warning", () => {
  const { gpus, warnings } = join({ query: [{ n: 0, name: "NVIDIA Z9000" }] });
  expect(gpus[0]?.class).toBe("z9000-80g");
  expect(warnings).toEqual(['card 0: "NVIDIA Z9000" is not a known product; its class z9000-80g is derived from name and memory']);
});

test("a card without a UUID cannot be offered", () => {
  expect(join({ list: [{ n: 0, uuid: "N/A" }], query: [{ n: 0, uuid: "N/A" }] })).toMatchObject({
    gpus: [],
    unusable_cards: [{ index: 0, reason: "the driver gives no UUID for it" }],
  });
});
