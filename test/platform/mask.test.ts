import { expect, test } from "bun:test";
import fc from "fast-check";
import { createMask } from "../../src/platform/mask.ts";

const subjects = { hostnames: ["gpu-node-17.example.org"], users: ["alice"] };

test("a UUID is replaced by the same made-up one everywhere, in every form that holds it", () => {
  const mask = createMask(subjects);
  const uuid = "5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
  const listed = mask.text(`GPU 0: X (UUID: GPU-${uuid})`);
  const old = mask.text(`MIG-GPU-${uuid}/7/0`);
  expect(listed).toBe("GPU 0: X (UUID: GPU-00000000-0000-4000-8000-000000000001)");
  expect(old).toBe("MIG-GPU-00000000-0000-4000-8000-000000000001/7/0");
  expect(mask.text("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f")).toContain("000000000002");
});

test("all zeros say something and stay", () => {
  const mask = createMask(subjects);
  for (const text of ["00000000-0000-0000-0000-000000000000", "0000:0000:0000:0000", "0x0000000000000000", "00:00:00:00:00:00"]) {
    expect(mask.text(text)).toBe(text);
  }
});

test("a port GUID is the same in its GID as by itself, and the subnet prefix stays", () => {
  const mask = createMask(subjects);
  const gid = mask.text("fe80:0000:0000:0000:a088:c203:0074:cfda");
  expect(gid).toBe("fe80:0000:0000:0000:0200:0000:0000:0001");
  expect(mask.text("a088:c203:0074:cfda\n")).toBe("0200:0000:0000:0001\n");
});

test("serial numbers keep their length, words that are none stay", () => {
  const mask = createMask(subjects);
  expect(mask.text("<serial>1650000000001</serial>")).toBe("<serial>0000000000001</serial>");
  expect(mask.text("<serial>N/A</serial>")).toBe("<serial>N/A</serial>");
  expect(mask.text("<serial>1650000000001</serial>")).toBe("<serial>0000000000001</serial>");
});

test("host and user names, home folders and addresses go; versions and bus ids stay", () => {
  const mask = createMask(subjects);
  expect(mask.text("gpu-node-17 mlx5_0")).toBe("host-1 mlx5_0");
  expect(mask.text("gpu-node-17.example.org")).toBe("host-1");
  expect(mask.text("/home/bob/venv/bin/python --user alice")).toBe("/home/user-2/venv/bin/python --user user-1");
  expect(mask.text("Node #0 - 10.1.2.3 - READY - Version: 570.172.08")).toBe("Node #0 - 192.0.2.1 - READY - Version: 570.172.08");
  expect(mask.text("00000000:17:00.0 0000:1a:00.0 32.39.3804 0-47,96-143")).toBe("00000000:17:00.0 0000:1a:00.0 32.39.3804 0-47,96-143");
});

test("each name of a node is replaced, by the same one where only the domain differs", () => {
  const mask = createMask({ hostnames: ["gpu-node-17.example.org", "gpu-node-17", "rack7"], users: [] });
  expect(mask.text("gpu-node-17.example.org gpu-node-17 rack7 rack77")).toBe("host-1 host-1 host-2 rack77");
});

test("a name that is a word of every recording stays, since the recording would no longer fit together", () => {
  const mask = createMask({ hostnames: ["gpu", "(none)"], users: ["nvidia", "root", ""] });
  const text = '/proc/driver/nvidia/version <gpu id="00000000:17:00.0"> (none) /root/x';
  expect(mask.text(text)).toBe(text);
});

test("masking twice changes nothing more, and equal stays equal while different stays different", () => {
  const token = fc.oneof(
    fc.uuid(),
    fc.array(fc.stringMatching(/^[0-9a-f]{4}$/), { minLength: 4, maxLength: 4 }).map((groups) => groups.join(":")),
    fc.constantFrom("gpu-node-17", "NVIDIA H100", "0000:17:00.0", "81559 MiB"),
  );
  fc.assert(
    fc.property(fc.array(token, { maxLength: 30 }), (tokens) => {
      const mask = createMask(subjects);
      const once = tokens.map((word) => mask.text(word));
      expect(once.map((word) => mask.text(word))).toEqual(once);
      const key = (words: readonly string[]) => words.map((word) => words.indexOf(word));
      const folded = tokens.map((word) => word.toLowerCase());
      expect(key(once.map((word) => word.toLowerCase()))).toEqual(key(folded));
    }),
    { numRuns: 200 },
  );
});
