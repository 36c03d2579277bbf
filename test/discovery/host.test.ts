import { expect, test } from "bun:test";
import fc from "fast-check";
import { discoverHost, parseCgroups, parseHostname, parseMeminfo, parseMemoryLimit } from "../../src/discovery/host.ts";
import { temporaryFolder } from "../support/folders.ts";
import { damaged, type TreeOptions, treeRunner } from "../support/tree-runner.ts";

const MEMINFO = "MemTotal:       1048576 kB\nMemFree:         123 kB\n";
const HOST = { "proc/sys/kernel/hostname": "node7\n", "proc/meminfo": MEMINFO };

async function discover(tree: Readonly<Record<string, string>>, options: TreeOptions = {}) {
  using folder = temporaryFolder();
  return await discoverHost(treeRunner(folder.path, tree, options));
}

test("name and RAM come from the kernel", async () => {
  expect(await discover(HOST)).toEqual({ hostname: "node7", memory_total_mb: 1024, warnings: [] });
});

test("what is not there is absent, without a warning", async () => {
  expect(await discover({})).toEqual({ warnings: [] });
});

test("what may not be read is absent, with a warning", async () => {
  const found = await discover(HOST, { fails: { "/proc/meminfo": "denied" } });
  expect(found).toEqual({ hostname: "node7", warnings: ["the host's facts are not whole: /proc/meminfo: denied"] });
});

test("the lowest limit of our group and of those above it counts", async () => {
  const found = await discover({
    ...HOST,
    "proc/self/cgroup": "0::/kube/pod:1/app\n",
    "sys/fs/cgroup/kube/pod:1/app/memory.max": "max\n",
    "sys/fs/cgroup/kube/pod:1/memory.max": `${300 * 1024 * 1024}\n`,
    "sys/fs/cgroup/kube/memory.max": `${600 * 1024 * 1024}\n`,
  });
  expect(found.memory_total_mb).toBe(300);
});

test("in a container with a control group namespace of its own the limit is at the root", async () => {
  const limit = { "sys/fs/cgroup/memory.max": "268435456\n" };
  expect((await discover({ ...HOST, "proc/self/cgroup": "0::/\n", ...limit })).memory_total_mb).toBe(256);
  expect((await discover({ ...HOST, "proc/self/cgroup": "0::/docker/abc\n", ...limit })).memory_total_mb).toBe(256);
  expect((await discover({ ...HOST, "proc/self/cgroup": "0::/../../x\n", ...limit })).memory_total_mb).toBe(256);
});

test("a limit of the older hierarchy counts too, its huge number for none does not", async () => {
  const cgroup = "12:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n";
  const file = "sys/fs/cgroup/memory/memory.limit_in_bytes";
  expect((await discover({ ...HOST, "proc/self/cgroup": cgroup, [file]: "134217728\n" })).memory_total_mb).toBe(128);
  expect((await discover({ ...HOST, "proc/self/cgroup": cgroup, [file]: "9223372036854771712\n" })).memory_total_mb).toBe(1024);
});

test("a limit above the RAM changes nothing, and one without known RAM is what there is", async () => {
  const limits = { "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": `${2 ** 40}\n` };
  expect((await discover({ ...HOST, ...limits })).memory_total_mb).toBe(1024);
  expect((await discover(limits)).memory_total_mb).toBe(1_048_576);
});

test("odd texts are unknown and not zero", () => {
  expect(parseMeminfo("MemTotal: 12 MB\n").total_bytes).toBeUndefined();
  expect(parseMeminfo("XMemTotal: 12 kB\n").total_bytes).toBeUndefined();
  expect(parseMemoryLimit("0")).toBeUndefined();
  expect(parseMemoryLimit("-1")).toBeUndefined();
  expect(parseHostname("(none)\n")).toBeUndefined();
  expect(parseHostname("a\u001b[31mb")).toBe("a\\u{1b}[31mb");
  expect(parseCgroups("nonsense\n1:name=systemd:/x\n0::relative\n")).toEqual({});
});

test("no damage to any file crashes, makes a number that is none, or memory that is not there", async () => {
  const tree = { ...HOST, "proc/self/cgroup": "4:memory:/a/b\n0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "268435456\n" };
  using folder = temporaryFolder();
  const share = fc.double({ min: 0, max: 1, noNaN: true });
  let damage = { keep: 1, at: 0, xor: 0 };
  const runner = treeRunner(folder.path, tree, { garble: (bytes) => damaged(bytes, damage) });
  await fc.assert(
    fc.asyncProperty(share, share, fc.nat(255), async (keep, at, xor) => {
      damage = { keep, at, xor };
      const { memory_total_mb } = await discoverHost(runner);
      if (memory_total_mb !== undefined) expect(Number.isSafeInteger(memory_total_mb)).toBe(true);
    }),
    { numRuns: 200 },
  );
});
