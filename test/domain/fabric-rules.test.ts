import { expect, test } from "bun:test";
import fc from "fast-check";
import { contradictions, type FabricMember } from "../../src/domain/fabric-rules.ts";

const port = (name: string, more: Partial<FabricMember> = {}): FabricMember => ({
  name,
  link_layer: "InfiniBand",
  gid_prefix: "fe80:0000:0000:0000",
  lid: undefined,
  sm_lid: 1,
  ...more,
});

test("ports in which nothing differs are not said to differ", () => {
  expect(contradictions([port("a", { lid: 5 }), port("b", { lid: 6 })])).toEqual([]);
  expect(contradictions([port("a", { sm_lid: undefined, gid_prefix: undefined }), port("b")])).toEqual([]);
});

test("two subnet managers, two prefixes, one LID twice and two link layers each prove that it is not one fabric", () => {
  expect(contradictions([port("a", { sm_lid: 1 }), port("b", { sm_lid: 9 })])).toEqual([
    "its subnet managers differ (SM LID 1: a; SM LID 9: b): different subnets, unless one is handing over to another at this moment",
  ]);
  expect(contradictions([port("a"), port("b", { gid_prefix: "fec0:0000:0000:0001" })])).toEqual([
    "its GID prefixes differ (fe80:0000:0000:0000: a; fec0:0000:0000:0001: b): different subnets",
  ]);
  expect(contradictions([port("a", { lid: 7 }), port("b", { lid: 7 })])).toEqual([
    "LID 7 is given to both a and b: a LID is unique in a subnet, so these are different subnets",
  ]);
  expect(contradictions([port("a"), port("b", { link_layer: "Ethernet" })])[0]).toStartWith("its link layers differ");
});

test("a port owns 2^LMC LIDs", () => {
  expect(contradictions([port("a", { lid: 8, lid_mask_count: 2 }), port("b", { lid: 11 })])[0]).toStartWith(
    "LID 11 is given to both a and b",
  );
  expect(contradictions([port("a", { lid: 8, lid_mask_count: 2 }), port("b", { lid: 12 })])).toEqual([]);
});

test("functions of one card share a LID when one of them is virtual, and not otherwise", () => {
  const [a, b] = [port("a", { lid: 7, part_of: "card" }), port("b", { lid: 7, part_of: "card" })];
  expect(contradictions([a, { ...b, may_share: true }])).toEqual([]);
  expect(contradictions([a, b])).toHaveLength(1);
  expect(contradictions([a, { ...b, may_share: true, part_of: "other" }])).toHaveLength(1);
});

test("LIDs that are no addresses are not compared", () => {
  for (const lid of [0, 0xffff]) expect(contradictions([port("a", { lid }), port("b", { lid })])).toEqual([]);
});

test("of ten thousand ports a few are named", () => {
  const many = Array.from({ length: 10_000 }, (_, at) => port(`n${at}`, { lid: 1 + (at % 5_000), sm_lid: at === 0 ? 2 : 1 }));
  const said = contradictions(many);
  expect(said[0]).toContain("n1, n2, n3, n4, n5, n6 and 9993 more");
  expect(said).toHaveLength(7);
});

test("sorted comparison finds exactly whether two ports own one LID", () => {
  const lids = fc.array(fc.record({ lid: fc.integer({ min: 1, max: 60 }), lmc: fc.integer({ min: 0, max: 3 }) }), { maxLength: 12 });
  fc.assert(
    fc.property(lids, (given) => {
      const ports = given.map(({ lid, lmc }, at) => port(`p${at}`, { lid, lid_mask_count: lmc }));
      const overlap = given.some((a, at) => given.slice(at + 1).some((b) => a.lid < b.lid + 2 ** b.lmc && b.lid < a.lid + 2 ** a.lmc));
      expect(contradictions(ports).length > 0).toBe(overlap);
    }),
  );
});
