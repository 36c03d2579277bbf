/** Whatever is done to an output: no throw, no NaN, and no value that the text does not hold. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { joinDevices } from "../../../src/discovery/cards.ts";
import { explainFailure } from "../../../src/discovery/nvidia-smi/failure.ts";
import { parseList } from "../../../src/discovery/nvidia-smi/list.ts";
import { parseQuery } from "../../../src/discovery/nvidia-smi/query.ts";
import { parseTopology } from "../../../src/discovery/nvidia-smi/topology.ts";
import { listText, processText, queryText, topologyText } from "../../support/smi-texts.ts";
import { damaged } from "../../support/tree-runner.ts";

const FOLDER = join(import.meta.dir, "../../../../shared/recorded/nvidia-smi");

function recorded(file: string): readonly string[] {
  const names = existsSync(FOLDER) ? readdirSync(FOLDER) : [];
  return names.flatMap((name) => (existsSync(join(FOLDER, name, file)) ? [readFileSync(join(FOLDER, name, file), "utf8")] : []));
}

const MORE = `<gpu_power_readings><instant_power_draw>612.25 W</instant_power_draw><current_power_limit>700.00 W</current_power_limit></gpu_power_readings>
<utilization><gpu_util>93 %</gpu_util></utilization>
<fabric><state>Completed</state><status>Success</status><cliqueId>32766</cliqueId><clusterUuid>5eed0000-0000-4000-8000-0000000000aa</clusterUuid></fabric>
`;
const CARDS = [
  { n: 0, more: MORE, processes: processText(48213, "python3 -m serve", "70123 MiB") },
  {
    n: 1,
    instances: [
      { device: 0, gi: 9, ci: 0, profile: "3g.40gb", memoryMb: 40448 },
      { device: 3, gi: 13, ci: 1, profile: "1c.2g.20gb", memoryMb: 20096 },
    ],
  },
  { n: 2, more: "<remapped_rows>GPU is lost</remapped_rows>" },
];
const SENTENCE = "Unable to determine the device handle for GPU3: 0000:34:00.0: Unknown Error\n";
const MATRIX = topologyText(
  [
    [" X ", "NV18", "PIX", "SYS", "0-27,56-83", "0", "", "N/A"],
    ["NV18", " X ", "NODE", "PXB", "28-55,84-111", "1", "", "N/A"],
  ],
  ["NIC0", "NIC1"],
  ["mlx5_0", "mlx5_bond_0"],
);

type Change = (text: string) => string;

/** Cut, a byte changed, a line taken out, two lines changed round, two halves changed round. */
const anyChange: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ keep: fc.double({ min: 0, max: 1, noNaN: true }), at: fc.double({ min: 0, max: 1, noNaN: true }), xor: fc.nat(255) }).map(
    (damage): Change =>
      (text) =>
        new TextDecoder().decode(damaged(new TextEncoder().encode(text), damage)),
  ),
  fc.tuple(fc.nat(), fc.nat(), fc.nat(2)).map(
    ([a, b, what]): Change =>
      (text) => {
        const lines = text.split("\n");
        const [from, to] = [a % lines.length, b % lines.length];
        if (what === 0) return lines.toSpliced(from, 1 + (b % 3)).join("\n");
        if (what === 1) return [...lines.slice(from), ...lines.slice(0, from)].join("\n");
        return lines
          .with(from, lines[to] ?? "")
          .with(to, lines[from] ?? "")
          .join("\n");
      },
  ),
);

/** Sums are made of several numbers of the text. */
const SUMS = ["volatileUncorrectable", "aggregateUncorrectable"];

function numbersIn(value: unknown): readonly number[] {
  if (typeof value === "number") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => (SUMS.includes(key) ? [] : numbersIn(inner)));
}

function holdsAll(text: string, parsed: unknown): void {
  for (const number of numbersIn(parsed)) {
    expect(number).not.toBeNaN();
    if (!text.includes(String(number))) throw new Error(`${number} is not in the text`);
  }
}

/** A name with characters of its own writing is shown in another way than it is printed. */
function holdsWord(text: string, word: string | undefined): void {
  const written = word === undefined || /\\u\{|[&<>"'\u2026]/.test(word);
  if (!written && !text.includes(word)) throw new Error(`${word} is not in the text`);
}

function samples(own: string, file: string): fc.Arbitrary<string> {
  return fc.oneof(fc.constant(own), fc.constantFrom(own, ...recorded(file)));
}

test("a changed -L gives only what is written in it", () => {
  fc.assert(
    fc.property(samples(SENTENCE + listText(CARDS), "L.txt"), anyChange, (whole, change) => {
      const text = change(whole);
      const report = parseList(text);
      holdsAll(text, report);
      for (const card of report.cards) {
        holdsWord(text, card.name);
        for (const word of [card.uuid, ...card.instances.flatMap(({ uuid, profile }) => [uuid, profile])]) holdsWord(text, word);
        expect(new Set(card.instances.map(({ device }) => device)).size).toBe(card.instances.length);
      }
      expect(new Set(report.cards.map(({ index }) => index)).size).toBe(report.cards.length);
    }),
    { numRuns: 800 },
  );
});

test("a changed -q -x gives only what is written in it", () => {
  fc.assert(
    fc.property(samples(queryText(CARDS), "q-x.xml"), anyChange, (whole, change) => {
      const text = change(whole);
      const report = parseQuery(text);
      holdsAll(text, report);
      for (const card of report.cards) {
        for (const word of [card.busId, card.name, card.uuid, ...(card.processes ?? []).map(({ name }) => name)]) holdsWord(text, word);
      }
    }),
    { numRuns: 400 },
  );
});

test("a changed matrix gives only what is written in it", () => {
  fc.assert(
    fc.property(samples(MATRIX, "topo-m.txt"), anyChange, (whole, change) => {
      const text = change(whole);
      const report = parseTopology(text);
      holdsAll(text, report);
      for (const nic of report.nics) holdsWord(text, nic);
      for (const card of report.cards) for (const word of Object.values(card.links)) holdsWord(text, word);
    }),
    { numRuns: 800 },
  );
});

/** Cut, or without some lines. */
const anyLoss: fc.Arbitrary<Change> = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(), fc.nat(40)).map(
  ([keep, at, count]): Change =>
    (text) => {
      const lines = text.slice(0, Math.ceil(text.length * keep)).split("\n");
      return lines.toSpliced(at % lines.length, count).join("\n");
    },
);

test("a matrix that lost text shows no other link between two cards than the whole one", () => {
  fc.assert(
    fc.property(samples(MATRIX, "topo-m.txt"), anyLoss, (whole, lose) => {
      const links = new Map(parseTopology(whole).cards.map((card) => [card.index, card.links]));
      for (const card of parseTopology(lose(whole)).cards) expect(links.get(card.index)).toMatchObject(card.links);
    }),
    { numRuns: 400 },
  );
});

test("an -L that was cut off puts no instance under another card", () => {
  fc.assert(
    fc.property(samples(listText(CARDS), "L.txt"), fc.double({ min: 0, max: 1, noNaN: true }), (whole, keep) => {
      const cards = parseList(whole).cards;
      for (const card of parseList(whole.slice(0, Math.ceil(whole.length * keep))).cards) {
        const same = cards.find(({ index }) => index === card.index);
        expect([card.uuid, card.name]).toEqual([same?.uuid, same?.name ?? ""]);
        for (const instance of card.instances) expect(same?.instances).toContainEqual(instance);
      }
    }),
    { numRuns: 400 },
  );
});

test("changed outputs joined give devices that stand in one of them, each index once", () => {
  fc.assert(
    fc.property(anyChange, anyChange, anyChange, (first, second, third) => {
      const [list, query, matrix] = [first(listText(CARDS)), second(queryText(CARDS)), third(MATRIX)];
      const parsed = parseList(list);
      const devices = joinDevices({
        list: parsed.cards.length > 0 ? parsed : undefined,
        query: parseQuery(query),
        queryProblem: undefined,
        topology: parseTopology(matrix),
        places: new Map(),
      });
      const text = list + query;
      for (const { uuid, name, memory_total_mb, processes, temperature_c, index, health } of devices.gpus) {
        holdsAll(text, { memory_total_mb, processes, temperature_c });
        holdsWord(text, uuid);
        holdsWord(text, name);
        expect(Number.isSafeInteger(index)).toBe(true);
        expect(health.ok).toBe(health.problems.length === 0);
      }
      expect(new Set(devices.gpus.map(({ index }) => index)).size).toBe(devices.gpus.length);
      expect(new Set(devices.gpus.map(({ uuid }) => uuid)).size).toBe(devices.gpus.length);
    }),
    { numRuns: 400 },
  );
});

test("any text at all is read, and any ending explained, without a throw", () => {
  const pieces = fc.constantFrom(
    "GPU 0: ",
    "(UUID: ",
    '<gpu id="1">',
    "</gpu>",
    "<uuid>",
    "</uuid>",
    "GPU0\t",
    " X ",
    "NV18\t",
    "\n",
    "<?xml",
    "<nvidia_smi_log>",
    "</nvidia_smi_log>",
    "MIG ",
    "<![CDATA[",
    "<!--",
    "&#x0;",
    "\u001b[4m",
    "\u0000",
    "99999999999999999999",
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.string())), fc.integer({ min: 0, max: 255 }), (parts, code) => {
      const text = parts.join("");
      for (const parse of [parseList, parseQuery, parseTopology]) holdsAll(text, parse(text));
      expect(explainFailure(code, text, text)?.text).not.toBe("");
    }),
    { numRuns: 500 },
  );
});

const HEAD = '<?xml version="1.0" ?><nvidia_smi_log>';
const TAIL = "</nvidia_smi_log>";
const card = (inner: string): string => `${HEAD}<gpu id="00000000:10:00.0">${inner}</gpu>${TAIL}`;
const TIMES = 100_000;

const HOSTILE: Readonly<Record<string, string>> = {
  "elements inside each other": card("<a>".repeat(TIMES) + "</a>".repeat(TIMES)),
  "elements without an end": `${HEAD}<gpu id="1">${"<a>".repeat(TIMES)}`,
  "ends without an element": card("</a>".repeat(TIMES)),
  "ten megabytes of <": card("<".repeat(10_000_000)),
  "three megabytes of < in one card": card("<".repeat(3_000_000)),
  "ten megabytes of < alone": `${HEAD}${"<".repeat(10_000_000)}`,
  "an attribute without an end": `${HEAD}<gpu id="${"x".repeat(10_000_000)}`,
  "many attributes": card(`<a ${'b="c" '.repeat(TIMES)}></a>`),
  "many cards": `${HEAD}${'<gpu id="1"></gpu>'.repeat(TIMES)}${TAIL}`,
  "many cards without an end": `${HEAD}${'<gpu id="1">'.repeat(TIMES)}`,
  "many blocks that nobody reads": card("<clocks></clocks>".repeat(TIMES)),
  "many blocks that nobody reads, without an end": card("<clocks>".repeat(TIMES)),
  "many elements of one name": card("<uuid>x</uuid>".repeat(TIMES)),
  "many processes": card(`<processes>${"<process_info><pid>1</pid></process_info>".repeat(50_000)}</processes>`),
  "entities of entities": `<?xml version="1.0" ?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">${Array.from(
    { length: 60 },
    (_, n) => `<!ENTITY a${n + 1} "${`&a${n === 0 ? "" : n};`.repeat(10)}">`,
  ).join("")}]>${card("<uuid>&a60;</uuid>").slice(HEAD.length)}`,
  "entities in a card": card('<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><uuid>&b;</uuid>'),
  "many ampersands": card(`<uuid>${"&amp;".repeat(TIMES)}</uuid>`),
  "many comments": card("<!-- -->".repeat(TIMES)),
  "many lines of one card": "GPU 0:\n".repeat(100_000),
  "many whole lines of one card": listText([{ n: 0 }]).repeat(100_000),
  "many cards of a list": Array.from({ length: 10_000 }, (_, n) => `GPU ${n}: x (UUID: GPU-${n})\n`).join(""),
  "one card's name without an end": `GPU 0: ${"(UUID: ".repeat(TIMES)}`,
  "blanks after a card": `GPU 0: ${`(UUID: x)${" ".repeat(1000)}`.repeat(500)}x`,
  "many blanks": " ".repeat(5_000_000),
  "a long word": "x".repeat(5_000_000),
  "many rows": "GPU0\t X \tNV1\n".repeat(50_000),
  "a long row": `GPU0\t${" X \t".repeat(TIMES)}\n`,
  "a long header": `\t${"GPU0\t".repeat(TIMES)}CPU Affinity\nGPU0\t X \n`,
  "many handles": SENTENCE.repeat(50_000),
};

for (const [name, text] of Object.entries(HOSTILE)) {
  test(`reading comes to an end: ${name}`, () => {
    const query = parseQuery(text);
    expect([parseList(text), query, parseTopology(text)].every(({ warnings }) => Array.isArray(warnings))).toBe(true);
    expect(explainFailure(255, text, "")?.usable).toBe(false);
    expect(query.cards.every(({ uuid }) => uuid === undefined || text.includes(uuid))).toBe(true);
  });
}
