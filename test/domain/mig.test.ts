import { expect, test } from "bun:test";
import fc from "fast-check";
import { migClass, migDeviceIndex, migLabel, parseMigProfile } from "../../src/domain/mig.ts";

test("a profile name has slices, a nominal size and attributes", () => {
  const plain = { computeSlices: undefined, gpuSlices: 3, nominalGb: 40, attributes: [], without: undefined };
  expect(parseMigProfile("3g.40gb")).toEqual(plain);
  expect(parseMigProfile("1c.3g.40gb")).toEqual({ ...plain, computeSlices: 1 });
  expect(parseMigProfile("1g.10gb+me")).toEqual({ ...plain, gpuSlices: 1, nominalGb: 10, attributes: ["me"] });
  expect(parseMigProfile("1g.12gb+me.all")?.attributes).toEqual(["me.all"]);
  expect(parseMigProfile("2g.48gb+gfx,me")?.attributes).toEqual(["gfx", "me"]);
  expect(parseMigProfile("1g.24gb-me")).toEqual({ ...plain, gpuSlices: 1, nominalGb: 24, without: "me" });
});

test("a name of another form is no profile", () => {
  const names = ["", "3g", "3g.40", "g.40gb", "3g.40gb ", "3g.40gb+", "3G.40GB", "3g.40.5gb", "1c.3g.40gb.me"];
  expect(names.map(parseMigProfile)).toEqual(names.map(() => undefined));
});

test("every profile of the grammar is read back", () => {
  const slices = fc.integer({ min: 1, max: 12 });
  const attribute = fc.constantFrom("", "+me", "+me.all", "-me", "+gfx");
  fc.assert(
    fc.property(fc.option(slices), slices, fc.integer({ min: 1, max: 999 }), attribute, (compute, gpu, gb, more) => {
      const found = parseMigProfile(`${compute === null ? "" : `${compute}c.`}${gpu}g.${gb}gb${more}`);
      expect(found).toMatchObject({ gpuSlices: gpu, nominalGb: gb });
      expect(found?.computeSlices).toBe(compute ?? undefined);
    }),
  );
});

test("device indexes of 64 cards with up to 100 instances each do not meet", () => {
  const cards = Array.from({ length: 64 }, (_, card) => card);
  const all = cards.flatMap((card) => Array.from({ length: 100 }, (_, instance) => migDeviceIndex(card, instance)));
  expect(new Set([...cards, ...all]).size).toBe(64 + 64 * 100);
  expect(migDeviceIndex(3, 1)).toBe(1301);
  expect(migLabel(3, 1)).toBe("3/mig1");
});

test("the class of an instance is one word made of the card's class and the profile", () => {
  const profiles = ["3g.40gb", "1c.3g.40gb", "1g.10gb+me", "1g.12gb+me.all", "2g.48gb+gfx,me", "1g.24gb-me"];
  expect(profiles.map((profile) => migClass("h100-80g", profile))).toEqual([
    "h100-80g-mig-3g.40gb",
    "h100-80g-mig-1c.3g.40gb",
    "h100-80g-mig-1g.10gb.me",
    "h100-80g-mig-1g.12gb.me.all",
    "h100-80g-mig-2g.48gb.gfx.me",
    "h100-80g-mig-1g.24gb.nome",
  ]);
});

test("profiles that differ in what they have are different classes", () => {
  const profiles = ["1g.10gb", "1g.10gb+me", "1g.10gb-me", "1g.10gb+me.all", "1c.1g.10gb", "1g.10gb+gfx"];
  expect(new Set(profiles.map((profile) => migClass("x", profile))).size).toBe(profiles.length);
});

test("the class of any profile text holds no character that needs quoting", () => {
  fc.assert(fc.property(fc.string(), (profile) => expect(migClass("a100-40g", profile)).toMatch(/^[a-z0-9.-]+$/)));
});
