import { expect, test } from "bun:test";
import { nearestNics, parseTopology } from "../../../src/discovery/nvidia-smi/topology.ts";
import { topologyText } from "../../support/smi-texts.ts";

const PAIR = [
  [" X ", "NV18", "PIX", "SYS", "0-27,56-83", "0", "", "N/A"],
  ["NV18", " X ", "NODE", "PXB", "28-55,84-111", "1", "", "N/A"],
];

test("peers, links, adapters and the tail are read from the tool's own form", () => {
  const report = parseTopology(topologyText(PAIR, ["NIC0", "NIC1"], ["mlx5_0", "mlx5_bond_0"]));
  expect(report).toEqual({
    nics: ["mlx5_0", "mlx5_bond_0"],
    warnings: [],
    cards: [
      {
        index: 0,
        links: { 1: "NV18" },
        nvlinks: { 1: 18 },
        nics: { mlx5_0: "PIX", mlx5_bond_0: "SYS" },
        cpuAffinity: "0-27,56-83",
        numaAffinity: "0",
        gpuNumaId: undefined,
      },
      {
        index: 1,
        links: { 0: "NV18" },
        nvlinks: { 0: 18 },
        nics: { mlx5_0: "NODE", mlx5_bond_0: "PXB" },
        cpuAffinity: "28-55,84-111",
        numaAffinity: "1",
        gpuNumaId: undefined,
      },
    ],
  });
});

test("lost escape bytes, Windows line ends and a lost leading tab change nothing", () => {
  const text = topologyText(PAIR, ["NIC0", "NIC1"], ["mlx5_0", "mlx5_1"]);
  const whole = parseTopology(text);
  expect(parseTopology(text.replaceAll("\u001b", ""))).toEqual(whole);
  expect(parseTopology(text.replaceAll("\u001b[4m", "").replaceAll("\u001b[0m", ""))).toEqual(whole);
  expect(parseTopology(text.replaceAll("\n", "\r\n"))).toEqual(whole);
  expect(parseTopology(text.slice(1))).toEqual(whole);
});

test("tabs expanded to blanks are read by white space", () => {
  const text = topologyText(PAIR, ["NIC0", "NIC1"], ["mlx5_0", "mlx5_1"]);
  expect(parseTopology(text.replaceAll("\t", "        "))).toEqual(parseTopology(text));
});

test("an empty CPU affinity is not the NUMA node that follows it", () => {
  const [card] = parseTopology(topologyText([[" X ", "", "0", "", "N/A"]])).cards;
  expect(card).toMatchObject({ cpuAffinity: undefined, numaAffinity: "0", gpuNumaId: undefined });
  const [windows] = parseTopology(topologyText([[" X ", "", "", ""]])).cards;
  expect(windows).toMatchObject({ cpuAffinity: undefined, numaAffinity: undefined, gpuNumaId: undefined });
});

test("a NUMA affinity that is not there is not the id that follows it", () => {
  const [card] = parseTopology(topologyText([[" X ", "0-7", "", "N/A", "", "N/A"]])).cards;
  expect(card).toMatchObject({ cpuAffinity: "0-7", numaAffinity: undefined, gpuNumaId: undefined });
});

test("a coherent system has lists for NUMA affinity and an id of the card's own", () => {
  const [card] = parseTopology(topologyText([[" X ", "0-71", "0,3-9,11-17", "", "2"]])).cards;
  expect(card).toMatchObject({ cpuAffinity: "0-71", numaAffinity: "0,3-9,11-17", gpuNumaId: "2" });
});

test("adapters named in the header keep their names and their order", () => {
  const rows = [[" X ", "PHB", "SYS", "0-7", "0", "", "N/A"]];
  const report = parseTopology(topologyText(rows, ["mlx5_10", "mlx4_0"]));
  expect(report.nics).toEqual(["mlx5_10", "mlx4_0"]);
  expect(report.cards[0]?.nics).toEqual({ mlx5_10: "PHB", mlx4_0: "SYS" });
});

test("words of old drivers and words nobody knows are kept and are not near", () => {
  const rows = [
    [" X ", "SOC", "SOC", "NEW", "0-7"],
    ["SOC", " X ", "PHB", "SYS", "0-7"],
  ];
  const report = parseTopology(topologyText(rows, ["mlx5_0", "mlx5_1"]));
  expect(report.cards.map((card) => card.links)).toEqual([{ 1: "SOC" }, { 0: "SOC" }]);
  expect(report.cards.map((card) => nearestNics(card))).toEqual([undefined, { distance: "PHB", names: ["mlx5_0"] }]);
});

test("the nearest adapters are all those at the smallest distance", () => {
  const [card] = parseTopology(topologyText([[" X ", "PXB", "PXB", "NODE", "0-7"]], ["NIC0", "NIC1", "NIC2"])).cards;
  expect(card === undefined ? undefined : nearestNics(card)).toEqual({ distance: "PXB", names: ["NIC0", "NIC1"] });
});

test("a row that was cut off costs its own card, and the columns of the others stay in their places", () => {
  const text = topologyText([
    [" X ", "NV4", "NV2", "0-7", "0"],
    ["NV4", " X ", "NV1", "0-7", "0"],
    ["NV2", "NV1", " X ", "0-7", "0"],
  ]);
  const report = parseTopology(text.slice(0, text.indexOf("GPU2\tNV2") + "GPU2\tNV2".length));
  expect(report.cards.map((card) => [card.index, card.nvlinks])).toEqual([
    [0, { 1: 4, 2: 2 }],
    [1, { 0: 4, 2: 1 }],
  ]);
  expect(report.warnings).toEqual(["nvidia-smi topo -m: the row of GPU2 cannot be read"]);
});

test("a row that is missing does not shift the columns of the others", () => {
  const text = topologyText([
    [" X ", "NV4", "NV2", "0-7", "0"],
    ["NV4", " X ", "NV1", "0-7", "0"],
    ["NV2", "NV1", " X ", "0-7", "0"],
  ]);
  const report = parseTopology(text.replace(/^GPU1.*\n/m, ""));
  expect(report.cards.map((card) => [card.index, card.nvlinks])).toEqual([
    [0, { 1: 4, 2: 2 }],
    [2, { 0: 2, 1: 1 }],
  ]);
});

test("no two rows are about one card, and a row that does not know itself is not read", () => {
  const text = topologyText([
    [" X ", "NV4", "0-7", "0"],
    ["NV4", " X ", "0-7", "0"],
  ]);
  const twice = parseTopology(text.replace("GPU1\t", "GPU0\t"));
  expect(twice.cards.filter((card) => card.index === 0).length).toBeLessThanOrEqual(1);
});

test("other words are no matrix", () => {
  for (const text of ["", "No devices were found", "The -i command line argument must be used in conjunction with -n or -p.", "GPU0"]) {
    expect(parseTopology(text)).toEqual({ cards: [], nics: [], warnings: [] });
  }
});

test("a word nobody knows, with digits in it, is kept and takes no row away", () => {
  const rows = [
    [" X ", "C2C", "0-7", "0", "", "N/A"],
    ["C2C", " X ", "0-7", "0", "", "N/A"],
  ];
  const report = parseTopology(topologyText(rows));
  expect([report.cards.map((card) => card.links), report.warnings]).toEqual([[{ 1: "C2C" }, { 0: "C2C" }], []]);
  expect(report.cards.map((card) => card.nvlinks)).toEqual([{}, {}]);
});

test("half a word at the end of a text that was cut is no link", () => {
  const text = topologyText(PAIR.map((row) => [...row.slice(0, 2), ...row.slice(4)]));
  const cut = text.slice(0, text.indexOf("NV18") + "NV1".length);
  expect(parseTopology(cut)).toMatchObject({ cards: [], warnings: ["nvidia-smi topo -m: the row of GPU0 cannot be read"] });
  expect(parseTopology(`${cut}8\n`).cards.map((card) => card.nvlinks)).toEqual([{ 1: 18 }]);
});

test("an empty cell in expanded text makes no other cell of its neighbours", () => {
  const read = (row: string): unknown => parseTopology(`  GPU0  CPU Affinity  NUMA Affinity  GPU NUMA ID\nGPU0  X  ${row}\n`).cards[0];
  expect(read("              0             N/A")).toMatchObject({ cpuAffinity: undefined, numaAffinity: undefined, gpuNumaId: undefined });
  expect(read("0-7           N/A")).toMatchObject({ cpuAffinity: "0-7", numaAffinity: undefined, gpuNumaId: undefined });
  expect(read("0-7  1  2   ")).toMatchObject({ cpuAffinity: "0-7", numaAffinity: "1", gpuNumaId: "2" });
});

test("the card's own id stays in its column when the NUMA affinity is empty", () => {
  const [card] = parseTopology(topologyText([[" X ", "0-71", "", "", "2"]])).cards;
  expect(card).toMatchObject({ cpuAffinity: "0-71", numaAffinity: undefined, gpuNumaId: "2" });
});

test("adapters of any maker are columns, and a sentence before the matrix is no row", () => {
  const names = ["ib0", "bnxt_re0", "rdmap16s27", "roce-p1.s0", "mlx5_bond_0"];
  const text = topologyText([[" X ", "PIX", "PXB", "PHB", "NODE", "PIX", "0-7", "0", "", "N/A"]], names);
  const sentences = "warning SOME words here\nUnable to determine the device handle for GPU0000:17:00.0: Unknown Error\n";
  for (const whole of [text, sentences + text]) {
    const { nics, cards, warnings } = parseTopology(whole);
    expect([nics, warnings]).toEqual([names, []]);
    const [card] = cards;
    expect(card?.nics).toEqual({ ib0: "PIX", bnxt_re0: "PXB", rdmap16s27: "PHB", "roce-p1.s0": "NODE", mlx5_bond_0: "PIX" });
    expect(card === undefined ? undefined : nearestNics(card)).toEqual({ distance: "PIX", names: ["ib0", "mlx5_bond_0"] });
  }
});

test("sixteen cards and a header glued together are read by the rows", () => {
  const rows = Array.from({ length: 16 }, (_, at) => [
    ...Array.from({ length: 16 }, (__, to) => (at === to ? " X " : "NV18")),
    at < 8 ? "PIX" : "SYS",
    at < 8 ? "0-55" : "56-111",
    String(at >> 3),
    "",
    "N/A",
  ]);
  const text = topologyText(rows, ["mlx5_0"]);
  const whole = parseTopology(text);
  expect(whole.cards.map((card) => [card.index, Object.keys(card.nvlinks).length, card.nics.mlx5_0, card.numaAffinity])).toEqual(
    rows.map((_, at) => [at, 15, at < 8 ? "PIX" : "SYS", String(at >> 3)]),
  );
  const [header = "", ...rest] = text.split("\n");
  expect(parseTopology([header.replace(/(\d)\t(?=GPU\d|mlx5)/g, "$1"), ...rest].join("\n"))).toEqual(whole);
});

test("a row that ends early has no affinity, and the others keep theirs", () => {
  const text = topologyText(
    PAIR.map((row, at) => (at === 0 ? row.slice(0, 4) : row)),
    ["NIC0", "NIC1"],
  );
  const report = parseTopology(text);
  expect(report.cards.map((card) => [card.links, card.cpuAffinity])).toEqual([
    [{ 1: "NV18" }, undefined],
    [{ 0: "NV18" }, "28-55,84-111"],
  ]);
});
