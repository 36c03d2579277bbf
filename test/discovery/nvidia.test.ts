import { expect, test } from "bun:test";
import { askNvidiaSmi, type NvidiaReport } from "../../src/discovery/nvidia.ts";
import { type ExecResult, RunnerError, type RunnerErrorKind } from "../../src/platform/runner.ts";
import { temporaryFolder } from "../support/folders.ts";
import { listText, NAME, queryText, smiUuid, topologyText } from "../support/smi-texts.ts";
import { treeRunner } from "../support/tree-runner.ts";

type Answers = Readonly<Record<string, Partial<ExecResult> | RunnerErrorKind>>;
type Tree = Readonly<Record<string, string>>;

const CARDS = [{ n: 0 }, { n: 1 }];
const ALL: Answers = {
  "nvidia-smi -L": { stdout: listText(CARDS) },
  "nvidia-smi -q -x": { stdout: queryText(CARDS) },
  "nvidia-smi topo -m": {
    stdout: topologyText([
      [" X ", "NV18", "0-7", "0", "", "N/A"],
      ["NV18", " X ", "8-15", "1", "", "N/A"],
    ]),
  },
};

/** A card as the PCI bus shows it. */
function onBus(...busIds: readonly string[]): Tree {
  return Object.fromEntries(
    busIds.flatMap((busId) => [
      [`sys/bus/pci/devices/${busId}/vendor`, "0x10de\n"],
      [`sys/bus/pci/devices/${busId}/class`, "0x030200\n"],
    ]),
  );
}

/** A card as the kernel module lists it. */
function inProc(n: number, busId: string): Tree {
  return {
    [`proc/driver/nvidia/gpus/${busId}/information`]: `Model: \t\t ${NAME}\nGPU UUID: \t ${smiUuid(n)}\nBus Location: \t ${busId}\n`,
  };
}

async function asking(commands: Answers, tree: Tree = {}): Promise<{ readonly report: NvidiaReport; readonly asked: readonly string[] }> {
  using folder = temporaryFolder();
  const inner = treeRunner(folder.path, tree, { commands });
  const asked: string[] = [];
  const runner = {
    ...inner,
    exec: (argv: readonly string[]) => {
      asked.push(argv.join(" "));
      return inner.exec(argv);
    },
  };
  return { report: await askNvidiaSmi(runner, { program: "nvidia-smi" }), asked };
}

async function ask(commands: Answers, tree: Tree = {}): Promise<NvidiaReport> {
  return (await asking(commands, tree)).report;
}

/** The same ending for all three calls. */
function every(answer: Partial<ExecResult> | RunnerErrorKind): Answers {
  return { "nvidia-smi -L": answer, "nvidia-smi -q -x": answer, "nvidia-smi topo -m": answer };
}

test("three calls that answer give three views and no warning, and nothing more is asked", async () => {
  const { report, asked } = await asking(ALL);
  expect(report).toMatchObject({ source: "nvidia-smi", driverVersion: "580.65.06", cudaVersion: "13.0", lostCards: [], warnings: [] });
  expect([report.list?.cards.length, report.query?.cards.length, report.topology?.cards.length]).toEqual([2, 2, 2]);
  expect(report.queryProblem).toBeUndefined();
  expect(asked).toEqual(["nvidia-smi -L", "nvidia-smi -q -x", "nvidia-smi topo -m"]);
});

test("without the tool there is no source, and cards on the bus ask for the driver", async () => {
  expect(await ask({})).toMatchObject({ source: "none", list: undefined, query: undefined, lostCards: [], warnings: [] });
  expect((await ask({}, onBus("0000:10:00.0", "0000:11:00.0"))).warnings).toEqual([
    "2 NVIDIA cards are on the PCI bus, but there is no nvidia-smi: install the driver",
  ]);
});

test("a tool that hangs or is busy is one warning, and the cards that the kernel lists are lost", async () => {
  for (const kind of ["timeout", "busy"] as const) {
    const report = await ask(every(kind), { ...inProc(0, "0000:10:00.0"), ...onBus("0000:11:00.0") });
    expect(report.source).toBe("unavailable");
    expect(report.warnings).toEqual([`nvidia-smi -L, -q -x, topo -m: ${kind}`]);
    expect(report.lostCards).toEqual([
      { uuid: smiUuid(0), name: NAME, pci_bus_id: "0000:10:00.0", reason: `nvidia-smi -q -x: ${kind}` },
      { pci_bus_id: "0000:11:00.0", reason: `nvidia-smi -q -x: ${kind}` },
    ]);
  }
});

test("a query that hangs costs its own facts: the list stays, and says why nothing else is known", async () => {
  const report = await ask({ ...ALL, "nvidia-smi -q -x": "timeout" });
  expect(report.source).toBe("nvidia-smi");
  expect(report.list?.cards).toHaveLength(2);
  expect(report.query).toBeUndefined();
  expect(report.queryProblem).toBe("its state is not known: nvidia-smi -q -x: timeout");
  expect(report.warnings).toEqual(["nvidia-smi -q -x: timeout"]);
});

test("a list or a matrix that fails costs its own facts", async () => {
  const list = await ask({ ...ALL, "nvidia-smi -L": "io" });
  expect([list.list, list.query?.cards.length, list.warnings]).toEqual([undefined, 2, ["nvidia-smi -L: io"]]);
  const usage = "The -i command line argument must be used in conjunction with -n or -p.";
  const topo = await ask({ ...ALL, "nvidia-smi topo -m": { exitCode: 255, stdout: `${usage}\n` } });
  expect([topo.topology, topo.query?.cards.length, topo.warnings]).toEqual([undefined, 2, [`nvidia-smi topo -m: ${usage}`]]);
});

test("a library that does not fit the module is one warning in the tool's words", async () => {
  const words = "Failed to initialize NVML: Driver/library version mismatch";
  const { report, asked } = await asking(
    every({ exitCode: 18, stdout: `${words}\nNVML library version: 535.161\n` }),
    inProc(0, "0000:10:00.0"),
  );
  expect(report.source).toBe("unavailable");
  expect(report.warnings).toEqual([`nvidia-smi -L, -q -x, topo -m: ${words} NVML library version: 535.161`]);
  expect(report.lostCards.map((card) => card.uuid)).toEqual([smiUuid(0)]);
  expect(asked).toHaveLength(3);
});

test("no devices were found means no cards, and the words are told", async () => {
  const report = await ask(every({ exitCode: 6, stdout: "No devices were found\n" }));
  expect(report).toMatchObject({ source: "unavailable", list: undefined, lostCards: [] });
  expect(report.warnings).toEqual(["nvidia-smi -L, -q -x, topo -m: No devices were found"]);
});

test("an error sentence with a good exit code is no data", async () => {
  const words = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it is running.";
  const report = await ask(every({ exitCode: 0, stdout: `${words}\n` }));
  expect([report.source, report.list, report.warnings]).toEqual(["unavailable", undefined, [`nvidia-smi -L, -q -x, topo -m: ${words}`]]);
});

test("a corrupt infoROM leaves the data usable and is told", async () => {
  const warning = "WARNING: infoROM is corrupted at gpu 0000:10:00.0";
  const query = { exitCode: 14, stdout: `${queryText(CARDS)}${warning}\n` };
  const { report, asked } = await asking({ ...ALL, "nvidia-smi -q -x": query });
  expect(report.query?.cards).toHaveLength(2);
  expect(report.queryProblem).toBeUndefined();
  expect(report.warnings).toEqual([`nvidia-smi -q -x: ${warning}`]);
  expect(asked).toHaveLength(3);
});

test("one lost card spoils the query for all: then each card is asked for itself", async () => {
  const words = "Unable to determine the device handle for GPU1: 0000:11:00.0: Unknown Error";
  const { report, asked } = await asking(
    {
      "nvidia-smi -L": { exitCode: 255, stdout: `${words}\n${listText([{ n: 0 }, { n: 2 }])}` },
      "nvidia-smi -q -x": { exitCode: 255, stdout: `${words}\n` },
      "nvidia-smi topo -m": { exitCode: 255, stdout: `${words}\n` },
      "nvidia-smi -q -x -i 00000000:10:00.0": { stdout: queryText([{ n: 0 }]) },
      "nvidia-smi -q -x -i 00000000:11:00.0": { exitCode: 15, stdout: `${words}\n` },
      "nvidia-smi -q -x -i 00000000:12:00.0": { stdout: queryText([{ n: 2 }]) },
    },
    { ...inProc(1, "0000:11:00.0"), ...onBus("0000:10:00.0", "0000:11:00.0", "0000:12:00.0") },
  );
  expect(asked).toHaveLength(6);
  expect(report.source).toBe("nvidia-smi");
  expect(report.query?.cards.map((card) => card.uuid)).toEqual([smiUuid(0), smiUuid(2)]);
  expect(report.lostCards).toEqual([{ index: 1, uuid: smiUuid(1), name: NAME, pci_bus_id: "0000:11:00.0", reason: words }]);
  expect(report.driverVersion).toBe("580.65.06");
  expect(report.warnings).toEqual([`nvidia-smi -L, -q -x, topo -m: ${words}`]);
});

test("without a list the place on the bus is the index of a card that was asked for itself", async () => {
  const words = "Unable to determine the device handle for GPU 0000:10:00.0: GPU is lost.  Reboot the system to recover this GPU";
  const { report } = await asking(
    {
      ...every({ exitCode: 15, stdout: `${words}\n` }),
      "nvidia-smi -q -x -i 00000000:10:00.0": { exitCode: 15, stdout: `${words}\n` },
      "nvidia-smi -q -x -i 00000000:11:00.0": { stdout: queryText([{ n: 1 }]) },
    },
    onBus("0000:10:00.0", "0000:11:00.0"),
  );
  expect(report.query?.cards.map((card) => [card.index, card.uuid])).toEqual([[1, smiUuid(1)]]);
  expect(report.lostCards.map((card) => [card.index, card.pci_bus_id])).toEqual([[0, "0000:10:00.0"]]);
});

test("cards that answered together with the sentence are not asked again", async () => {
  const words = "Unable to determine the device handle for GPU1: 0000:11:00.0: Unknown Error";
  const { report, asked } = await asking(
    { ...ALL, "nvidia-smi -q -x": { exitCode: 255, stdout: `${queryText([{ n: 0 }])}${words}\n` } },
    onBus("0000:10:00.0", "0000:11:00.0"),
  );
  expect(asked.slice(3)).toEqual(["nvidia-smi -q -x -i 00000000:11:00.0"]);
  expect(report.query?.cards.map((card) => card.uuid)).toEqual([smiUuid(0)]);
  expect(report.lostCards.map((card) => card.pci_bus_id)).toEqual(["0000:11:00.0"]);
});

test("without a list the place on the bus is also the index of a card that answered together with the sentence", async () => {
  const words = "Unable to determine the device handle for GPU0000:10:00.0: Unknown Error";
  const report = await ask(
    {
      ...every({ exitCode: 255, stdout: `${words}\n` }),
      "nvidia-smi -q -x": { exitCode: 255, stdout: `${words}\n${queryText([{ n: 1 }])}` },
    },
    onBus("0000:10:00.0", "0000:11:00.0"),
  );
  expect(report.query?.cards.map((card) => [card.index, card.uuid])).toEqual([[1, smiUuid(1)]]);
  expect(report.lostCards.map((card) => [card.index, card.pci_bus_id])).toEqual([[0, "0000:10:00.0"]]);
});

test("a tool that prints nothing useful is told, and no card is made of it", async () => {
  const report = await ask(every({ stdout: "hello\n" }));
  expect(report).toMatchObject({ source: "unavailable", list: undefined, topology: undefined });
  expect(report.warnings).toEqual([
    "nvidia-smi -L printed nothing that names a card",
    "nvidia-smi -q -x printed nothing that names a card",
    "nvidia-smi topo -m printed no matrix",
  ]);
});

test("output that reached its cap is told as cut off", async () => {
  const text = queryText(CARDS);
  const report = await ask({ ...ALL, "nvidia-smi -q -x": { stdout: text.slice(0, text.lastIndexOf("<pci>")), truncated: true } });
  expect(report.query?.cards.map((card) => card.readable)).toEqual([true, false]);
  expect(report.warnings).toEqual([
    "nvidia-smi -q -x: the output is cut off",
    "nvidia-smi -q -x: the part about card 00000000:11:00.0 cannot be read",
  ]);
});

test("a caller that gives up is not told of a broken card", async () => {
  const promise = ask({ ...ALL, "nvidia-smi -q -x": "aborted" });
  expect(promise).rejects.toBeInstanceOf(RunnerError);
  await promise.catch(() => undefined);
});
