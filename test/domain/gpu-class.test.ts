import { expect, test } from "bun:test";
import fc from "fast-check";
import { classifyCard } from "../../src/domain/gpu-class.ts";

test("cards of the data centre have the family's name and the marketed size", () => {
  const cards: readonly (readonly [string, number, string, string])[] = [
    ["NVIDIA GB300", 284208, "gb300-288g", "10.3"],
    ["NVIDIA GB200", 189471, "gb200-186g", "10.0"],
    ["NVIDIA GH200 480GB", 97871, "gh200-96g", "9.0"],
    ["NVIDIA B300 SXM6 AC", 275040, "b300-288g", "10.3"],
    ["NVIDIA B200", 183359, "b200-180g", "10.0"],
    ["NVIDIA H200", 143771, "h200-141g", "9.0"],
    ["NVIDIA H100 80GB HBM3", 81559, "h100-80g", "9.0"],
    ["NVIDIA H100 PCIe", 81559, "h100-80g", "9.0"],
    ["NVIDIA H100 NVL", 95830, "h100-94g", "9.0"],
    ["A100-SXM4-40GB", 40536, "a100-40g", "8.0"],
    ["NVIDIA A100-SXM4-40GB", 40960, "a100-40g", "8.0"],
    ["NVIDIA A100-SXM4-80GB", 81920, "a100-80g", "8.0"],
    ["NVIDIA A30", 24576, "a30-24g", "8.0"],
    ["NVIDIA A10G", 23028, "a10g-24g", "8.6"],
    ["NVIDIA L40S", 46068, "l40s-48g", "8.9"],
    ["NVIDIA L4", 23034, "l4-24g", "8.9"],
    ["Tesla T4", 15360, "t4-16g", "7.5"],
    ["Tesla V100-SXM2-32GB", 32768, "v100-32g", "7.0"],
    ["Tesla P100-PCIE-16GB", 16384, "p100-16g", "6.0"],
    ["Tesla K80", 11441, "k80-12g", "3.7"],
    ["NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "rtxpro6000-96g", "12.0"],
  ];
  for (const [name, memory, expected, capability] of cards) {
    expect([name, classifyCard(name, memory)]).toEqual([name, { class: expected, computeCapability: capability, derived: false }]);
  }
});

test("a name that holds another card's name is not that card", () => {
  const cards: readonly (readonly [string, number, string])[] = [
    ["NVIDIA GH200 480GB", 97871, "gh200-96g"],
    ["NVIDIA L40S", 46068, "l40s-48g"],
    ["NVIDIA A10G", 23028, "a10g-24g"],
    ["NVIDIA H20", 97871, "h20-96g"],
    ["NVIDIA RTX A2000 12GB", 12282, "rtxa2000-12g"],
    ["Quadro RTX 4000", 8192, "quadrortx4000-8g"],
    ["NVIDIA RTX 4000 SFF Ada Generation", 20475, "rtx4000sffada-20g"],
    ["NVIDIA GeForce RTX 2080 Ti", 11264, "rtx2080ti-11g"],
  ];
  for (const [name, memory, expected] of cards) expect([name, classifyCard(name, memory).class]).toEqual([name, expected]);
});

test("GeForce cards are told apart by their suffixes", () => {
  const names = ["RTX 4080", "RTX 4080 SUPER", "RTX 4070 Ti", "RTX 4070 Ti SUPER", "RTX 4090 D", "RTX 4090 Laptop GPU"];
  expect(names.map((name) => classifyCard(`NVIDIA GeForce ${name}`, 16376).class)).toEqual([
    "rtx4080-16g",
    "rtx4080super-16g",
    "rtx4070ti-16g",
    "rtx4070tisuper-16g",
    "rtx4090d-16g",
    "rtx4090laptop-16g",
  ]);
  expect(classifyCard("NVIDIA GeForce GTX 1070", 8116)).toEqual({ class: "gtx1070-8g", computeCapability: "6.1", derived: false });
});

test("the word NVIDIA, which newer drivers put in front, is no part of the class", () => {
  for (const name of ["A100-SXM4-40GB", "GeForce RTX 3090", "Quadro P2200", "TITAN X (Pascal)", "Odd Card"]) {
    expect(classifyCard(`NVIDIA ${name}`, 12288)).toEqual(classifyCard(name, 12288));
  }
});

test("without the memory the size comes from the name, or from a family of one size, or is left out", () => {
  expect(classifyCard("NVIDIA A100-SXM4-80GB", undefined).class).toBe("a100-80g");
  expect(classifyCard("NVIDIA H100 NVL", undefined).class).toBe("h100-94g");
  expect(classifyCard("NVIDIA H200", undefined).class).toBe("h200-141g");
  expect(classifyCard("NVIDIA GB10", undefined).class).toBe("gb10-128g");
  expect(classifyCard("NVIDIA GH200 480GB", undefined).class).toBe("gh200");
  expect(classifyCard("NVIDIA GeForce RTX 4090", undefined).class).toBe("rtx4090");
});

test("a part of a card under the card's name is another class than the card", () => {
  for (const name of ["GRID P4-1Q", "GRID A100-10C", "NVIDIA A100-40C", "GRID T4-2B", "GRID V100D-8A"]) {
    const found = classifyCard(name, 1024);
    expect([name, found.derived, found.computeCapability]).toEqual([name, true, undefined]);
  }
});

test("a product nobody knows has a class made of its name and memory", () => {
  expect(classifyCard("NVIDIA Z9000 Ultra (Beta)", 49152)).toEqual({
    class: "z9000-ultra-beta-48g",
    computeCapability: undefined,
    derived: true,
  });
  expect(classifyCard("", undefined).class).toBe("gpu");
});

test("memory far from the family's sizes is taken as it is", () => {
  expect(classifyCard("NVIDIA H100 80GB HBM3", 20480).class).toBe("h100-20g");
});

test("any name and memory give one word, the same each time", () => {
  fc.assert(
    fc.property(fc.string(), fc.option(fc.nat(1_000_000), { nil: undefined }), (name, memory) => {
      const found = classifyCard(name, memory);
      expect(found.class).toMatch(/^[a-z0-9][a-z0-9.-]*$/);
      expect(classifyCard(name, memory)).toEqual(found);
    }),
  );
});
