import { expect, test } from "bun:test";
import { parseHandle, parseList } from "../../../src/discovery/nvidia-smi/list.ts";
import { listText, migUuid, NAME, smiUuid } from "../../support/smi-texts.ts";

test("index, name and UUID of each card are read; the index is the printed one", () => {
  const { cards, warnings } = parseList(listText([{ n: 0 }, { n: 5, index: 2 }]));
  expect(cards).toEqual([
    { index: 0, name: NAME, uuid: smiUuid(0), instances: [] },
    { index: 2, name: NAME, uuid: smiUuid(5), instances: [] },
  ]);
  expect(warnings).toEqual([]);
});

test("a name may hold parentheses, the word UUID, or end in blanks", () => {
  const names = ["NVIDIA TITAN X (Pascal)", "Orin (nvgpu)", "NVIDIA Thor ", "Odd (UUID: none) card"];
  const { cards } = parseList(listText(names.map((name, n) => ({ n, name }))));
  expect(cards.map((card) => card.name)).toEqual(["NVIDIA TITAN X (Pascal)", "Orin (nvgpu)", "NVIDIA Thor", "Odd (UUID: none) card"]);
  expect(cards.map((card) => card.uuid)).toEqual([0, 1, 2, 3].map(smiUuid));
});

test("the bare UUID of Jetson and a UUID masked by its source are UUIDs; any other word is none", () => {
  const uuids = ["5eed0000-0000-4000-8000-00000000000a", "GPU-********-0000-4000-8000-00000000000b", "N/A", "[Unknown Error]", ""];
  const { cards } = parseList(listText(uuids.map((uuid, n) => ({ n, uuid }))));
  expect(cards.map((card) => card.uuid)).toEqual([uuids[0], uuids[1], undefined, undefined, undefined]);
});

test("instances belong to the card above them, and holes in their indexes stay", () => {
  const instances = [
    { device: 0, gi: 2, ci: 0, profile: "3g.40gb" },
    { device: 3, gi: 9, ci: 0, profile: "1c.2g.20gb" },
  ];
  const { cards } = parseList(listText([{ n: 0 }, { n: 1, instances }]));
  expect(cards[0]?.instances).toEqual([]);
  expect(cards[1]?.instances).toEqual([
    { device: 0, profile: "3g.40gb", uuid: migUuid(1, 0), gpuInstanceId: undefined, computeInstanceId: undefined, oldForm: false },
    { device: 3, profile: "1c.2g.20gb", uuid: migUuid(1, 3), gpuInstanceId: undefined, computeInstanceId: undefined, oldForm: false },
  ]);
});

test("the UUID of drivers before R470 spells out the ids, with one space and no padding", () => {
  const { cards } = parseList(`${listText([{ n: 0 }])}  MIG 1g.5gb Device 0: (UUID: MIG-${smiUuid(0)}/11/2)\n`);
  expect(cards[0]?.instances).toEqual([
    { device: 0, profile: "1g.5gb", uuid: `MIG-${smiUuid(0)}/11/2`, gpuInstanceId: 11, computeInstanceId: 2, oldForm: true },
  ]);
});

test("profiles with attributes are kept as printed", () => {
  const profiles = ["1g.10gb+me", "2g.48gb+gfx", "1g.24gb-me", "1g.12gb+me.all", "4g.71gb", "MIG"];
  const instances = profiles.map((profile, device) => ({ device, gi: device, ci: 0, profile }));
  const [card] = parseList(listText([{ n: 0, instances }])).cards;
  expect(card?.instances.map((instance) => instance.profile)).toEqual(profiles);
});

test("Windows line ends and three blanks before an instance change nothing", () => {
  const text = listText([{ n: 0, instances: [{ device: 0, gi: 1, ci: 0 }] }]);
  expect(parseList(text.replaceAll("\n", "\r\n").replace("  MIG", "   MIG"))).toEqual(parseList(text));
});

test("a card or an instance that is listed twice counts once and is named", () => {
  const instance = `  MIG 1g.10gb      Device  0: (UUID: ${migUuid(0, 0)})\n`;
  const { cards, warnings } = parseList(`${listText([{ n: 0 }])}${instance}${instance}${listText([{ n: 1, index: 0 }])}`);
  expect(cards.map((card) => [card.uuid, card.instances.length])).toEqual([[smiUuid(0), 1]]);
  expect(warnings).toEqual([
    "nvidia-smi -L lists MIG instance 0/mig0 twice; the first counts",
    "nvidia-smi -L lists card 0 twice; the first counts",
  ]);
});

test("instances below a card that was left out are not the card's above it", () => {
  const instance = `  MIG 1g.10gb      Device  0: (UUID: ${migUuid(9, 0)})\n`;
  const twice = parseList(`${listText([{ n: 0 }])}${listText([{ n: 9, index: 0 }])}${instance}`);
  expect(twice.cards.map((card) => card.instances.length)).toEqual([0]);
  const cut = parseList(`${listText([{ n: 0 }])}GPU 1: ${NAME} (UUID: GPU-5eed\n${instance}`);
  expect(cut.cards.map((card) => card.instances.length)).toEqual([0]);
  const handle = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error";
  const lost = parseList(`${listText([{ n: 0 }])}${handle}\n${instance}`);
  expect(lost.cards.map((card) => card.instances.length)).toEqual([0]);
});

test("an instance before any card and a line that was cut off are named", () => {
  const { cards, warnings } = parseList(`  MIG 1g.10gb  Device  0: (UUID: ${migUuid(0, 0)})\nGPU 0: ${NAME} (UUID: GPU-5eed`);
  expect(cards).toEqual([]);
  expect(warnings).toEqual([
    `nvidia-smi -L lists a MIG instance below no card that can be read: MIG 1g.10gb  Device  0: (UUID: ${migUuid(0, 0)})`,
    `nvidia-smi -L: a line that cannot be read was left out: GPU 0: ${NAME} (UUID: GPU-5eed`,
  ]);
});

test("the sentence about a lost card has three shapes, and the other cards stay", () => {
  const sentences = [
    "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error",
    "Unable to determine the device handle for GPU0000:17:00.0: GPU is lost.  Reboot the system to recover this GPU",
    "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error",
  ];
  expect(sentences.map(parseHandle)).toEqual([
    { index: undefined, busId: "0000:0B:00.0", text: sentences[0] ?? "" },
    { index: undefined, busId: "0000:17:00.0", text: sentences[1] ?? "" },
    { index: 1, busId: "0000:34:00.0", text: sentences[2] ?? "" },
  ]);
  const report = parseList(`${sentences[2]}\n${listText([{ n: 0 }, { n: 2 }])}`);
  expect(report.cards.map((card) => card.index)).toEqual([0, 2]);
  expect(report.inaccessible.map((card) => card.index)).toEqual([1]);
  expect(report.warnings).toEqual([]);
});

test("other words are no card", () => {
  const sentences = ["", "No devices were found", "Failed to initialize NVML: Unknown Error", "GPU: none", '<gpu id="0">'];
  for (const text of sentences) expect(parseList(text)).toEqual({ cards: [], inaccessible: [], warnings: [] });
});

test("escape sequences in a name are shown and not sent to a terminal", () => {
  const [card] = parseList(listText([{ n: 0, name: "Card\u001b[2J" }])).cards;
  expect(card?.name).toBe("Card\\u{1b}[2J");
});

test("a UUID masked to another length is still the card's, as it stands", () => {
  const uuids = ["GPU-xxxxxxxx", "GPU-5eed****-****", "GPU-XXXX-XXXX-XXXX", "GPU-5eed0000-0000", "GPU-zzzzzzzz"];
  const { cards } = parseList(listText(uuids.map((uuid, n) => ({ n, uuid }))));
  expect(cards.map((card) => card.uuid)).toEqual([uuids[0], uuids[1], uuids[2], undefined, undefined]);
});

test("an instance whose indentation was lost is an instance", () => {
  const text = listText([{ n: 0, instances: [{ device: 0, gi: 1, ci: 0 }] }]);
  expect(parseList(text.replace("  MIG", "MIG"))).toEqual(parseList(text));
});

test("a last line that was cut off anywhere is named, and nothing of it is used", () => {
  const whole = listText([{ n: 0 }, { n: 1, instances: [{ device: 0, gi: 1, ci: 0 }] }]);
  const first = listText([{ n: 0 }]).length;
  const second = whole.indexOf("  MIG");
  // Whole without its line end; cut in the blanks before the next line: nothing is lost there.
  const harmless = [second - 1, second, second + 1, second + 2];
  for (let end = first + 1; end < whole.length - 1; end++) {
    const { cards, warnings } = parseList(whole.slice(0, end));
    expect([end, cards.length, warnings.length]).toEqual([end, end >= second - 1 ? 2 : 1, harmless.includes(end) ? 0 : 1]);
    expect(cards.flatMap((card) => card.instances)).toEqual([]);
  }
});

test("the sentence about a lost card is cut off: it is used when the bus id is whole, and named when not", () => {
  const sentence = "Unable to determine the device handle for GPU 0000:0B:00.0";
  expect(parseHandle(sentence)).toMatchObject({ busId: "0000:0B:00.0", index: undefined });
  expect(parseList(`${listText([{ n: 0 }])}${sentence.slice(0, -3)}`)).toMatchObject({
    inaccessible: [],
    warnings: [`nvidia-smi -L: a line that cannot be read was left out: ${sentence.slice(0, -3)}`],
  });
});
