/** What the machine says of NVIDIA's driver and cards without asking the driver: bus, module, libraries, device nodes, kernel log. */
import { parseBusId } from "../domain/bus-id.ts";
import { type ExecResult, type FileRights, type Runner, readText } from "../platform/runner.ts";
import type { CapabilityInstance, Facts, KernelLog, MigMinors, ModuleFile, PciFunction, Read, Service } from "./facts.ts";
import { step } from "./step.ts";

type DriverFacts = Pick<
  Facts,
  | "pci"
  | "modules"
  | "libraryVersion"
  | "moduleFiles"
  | "deviceNodes"
  | "capabilityNodes"
  | "closedNodes"
  | "kernelLog"
  | "services"
  | "fabricManagerVersion"
  | "migMinors"
  | "migInstances"
>;

const LIMIT_MS = 5_000;
const READ = { timeoutMs: 2_000, maxBytes: 256 * 1024 };

export async function collectDriver(runner: Runner): Promise<DriverFacts> {
  const [pci, modules, libraryVersion, moduleFiles, deviceNodes, capabilityNodes, kernelLog, services, migMinors, migInstances] =
    await Promise.all([
      step("PCI bus", LIMIT_MS, () => listFunctions(runner)),
      step("/proc/modules", LIMIT_MS, async () => parseModules(await readText(runner, "/proc/modules", READ))),
      step("driver library", LIMIT_MS, () => findLibraryVersion(runner)),
      step("module files", LIMIT_MS, () => findModuleFiles(runner)),
      step("/dev", LIMIT_MS, () => runner.listDir("/dev", READ)),
      step("/dev/nvidia-caps", LIMIT_MS, () => runner.listDir("/dev/nvidia-caps", READ)),
      readKernelLog(runner),
      step("services", LIMIT_MS, () => askServices(runner)),
      step("mig-minors", LIMIT_MS, async () => parseMigMinors(await readText(runner, "/proc/driver/nvidia-caps/mig-minors", READ))),
      step("capability tree", LIMIT_MS, () => listCapabilities(runner)),
    ]);
  const closedNodes = await step("rights of device nodes", LIMIT_MS, () => findClosed(runner, deviceNodes, capabilityNodes));
  const switched = pci.kind === "read" && pci.value.some((one) => one.classCode === "0680");
  const fabricManagerVersion: Read<string> = switched
    ? await step("fabric manager", LIMIT_MS, async () =>
        versionIn(await runner.exec(["nv-fabricmanager", "--version"], { timeoutMs: 3_000 })),
      )
    : { kind: "absent" };
  return {
    pci,
    modules,
    libraryVersion,
    moduleFiles,
    deviceNodes,
    capabilityNodes,
    closedNodes: closedNodes.kind === "read" ? closedNodes.value : [],
    kernelLog,
    services,
    fabricManagerVersion,
    migMinors,
    migInstances,
  };
}

/** Nodes without the rights that this user needs: read and write of the cards, read of the capabilities. Root opens all of them. */
async function findClosed(runner: Runner, nodes: Read<readonly string[]>, caps: Read<readonly string[]>): Promise<readonly string[]> {
  const user = parseUser(await readText(runner, "/proc/self/status", READ));
  if (user === undefined || user.uid === 0) return [];
  const names = [
    ...(nodes.kind === "read" ? nodes.value.filter((name) => /^nvidia(?:ctl|-uvm|\d+)$/.test(name)) : []),
    ...(caps.kind === "read" ? caps.value.filter((name) => /^nvidia-cap\d+$/.test(name)).map((name) => `nvidia-caps/${name}`) : []),
  ];
  const closed = await Promise.all(
    names.map(async (name) => {
      const found = await runner.stat(`/dev/${name}`, READ);
      return found?.rights !== undefined && !mayOpen(user, found.rights, name.startsWith("nvidia-caps/") ? 4 : 6) ? [name] : [];
    }),
  );
  return closed.flat();
}

interface User {
  readonly uid: number;
  readonly groups: readonly number[];
}

/** Effective ids and supplementary groups. Source: proc_pid_status(5). */
export function parseUser(status: string | undefined): User | undefined {
  const uid = /^Uid:\s+\d+\s+(\d+)/m.exec(status ?? "")?.[1];
  const gid = /^Gid:\s+\d+\s+(\d+)/m.exec(status ?? "")?.[1];
  const more = /^Groups:[ \t]*([\d \t]*)$/m.exec(status ?? "")?.[1] ?? "";
  if (uid === undefined || gid === undefined) return undefined;
  return {
    uid: Number(uid),
    groups: [
      Number(gid),
      ...more
        .split(/\s+/)
        .filter((word) => word !== "")
        .map(Number),
    ],
  };
}

/** Owner, else group, else others: the first that applies decides. Source: inode(7). `wanted`: 4 read, 6 read and write. */
export function mayOpen(user: User, { mode, uid, gid }: FileRights, wanted: 4 | 6): boolean {
  const bits = user.uid === uid ? mode >> 6 : user.groups.includes(gid) ? mode >> 3 : mode;
  return (bits & wanted) === wanted;
}

const PCI_DEVICES = "/sys/bus/pci/devices";
/** A large server has hundreds of functions: not all of them at once. */
const AT_ONCE = 32;

async function listFunctions(runner: Runner): Promise<readonly PciFunction[] | undefined> {
  const names = await runner.listDir(PCI_DEVICES, READ);
  if (names === undefined) return undefined;
  const busIds = names.flatMap((name) => parseBusId(name) ?? []);
  const found: PciFunction[] = [];
  for (let at = 0; at < busIds.length; at += AT_ONCE) {
    const part = await Promise.all(busIds.slice(at, at + AT_ONCE).map((busId) => nvidiaFunction(runner, busId)));
    found.push(...part.flat());
  }
  return found;
}

async function nvidiaFunction(runner: Runner, busId: string): Promise<readonly PciFunction[]> {
  const folder = `${PCI_DEVICES}/${busId}`;
  const vendor = await quiet(runner, `${folder}/vendor`);
  if (vendor?.toLowerCase() !== "0x10de") return [];
  const [kind, driver, config, slot] = await Promise.all([
    quiet(runner, `${folder}/class`),
    step(`driver of ${busId}`, LIMIT_MS, () => runner.readLink(`${folder}/driver`)),
    // The first four bytes: vendor and device, all ones when nobody answers. The kernel reads them from the card at this moment.
    step(`configuration of ${busId}`, LIMIT_MS, () => runner.readFile(`${folder}/config`, { ...READ, maxBytes: 4 })),
    slotWidth(runner, folder),
  ]);
  const classCode = /^0x([0-9a-f]{4})/i.exec(kind ?? "")?.[1]?.toLowerCase();
  if (classCode === undefined) return [];
  return [
    {
      busId,
      classCode,
      driver: driver.kind === "read" ? driver.value.split("/").at(-1) : undefined,
      config: config.kind === "read" && config.value.length === 4 ? Buffer.from(config.value).toString("hex") : undefined,
      slotWidth: slot,
    },
  ];
}

/** The folder of the port above is the parent of the function's own, not of the link to it. */
async function slotWidth(runner: Runner, folder: string): Promise<number | undefined> {
  const path = await step(folder, LIMIT_MS, () => runner.realPath(folder, READ));
  if (path.kind !== "read") return undefined;
  const lanes = await quiet(runner, `${path.value.slice(0, path.value.lastIndexOf("/"))}/max_link_width`);
  return lanes !== undefined && /^[1-9]\d?$/.test(lanes) && Number(lanes) <= 32 ? Number(lanes) : undefined;
}

async function quiet(runner: Runner, path: string): Promise<string | undefined> {
  const read = await step(path, LIMIT_MS, () => readText(runner, path, READ));
  return read.kind === "read" ? read.value.trim() : undefined;
}

/** Names of the loaded modules. Source: proc_modules(5). */
export function parseModules(text: string | undefined): readonly string[] | undefined {
  return text?.split("\n").flatMap((line) => line.split(" ")[0] || []);
}

/** Where distributions put the library; the loader's cache says the same and is binary. */
const LIBRARY_FOLDERS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];

async function findLibraryVersion(runner: Runner): Promise<string | undefined> {
  for (const folder of LIBRARY_FOLDERS) {
    const target = await runner.readLink(`${folder}/libnvidia-ml.so.1`);
    const version = /libnvidia-ml\.so\.(\d{2,4}\.\d{1,3}(?:\.\d{1,3})?)$/.exec(target ?? "")?.[1];
    if (version !== undefined) return version;
  }
  return undefined;
}

async function findModuleFiles(runner: Runner): Promise<readonly ModuleFile[] | undefined> {
  const running = (await readText(runner, "/proc/sys/kernel/osrelease", READ))?.trim();
  const current = await runner.exec(["modinfo", "-F", "version", "nvidia"], { timeoutMs: 3_000 });
  if (running === undefined || current === undefined || current.exitCode !== 0) return undefined;
  const newest = newestKernel((await runner.listDir("/lib/modules", READ)) ?? []);
  const files: ModuleFile[] = [{ kernel: running, running: true, version: versionIn(current) }];
  if (newest === undefined || newest === running) return files;
  const next = await runner.exec(["modinfo", "-k", newest, "-F", "version", "nvidia"], { timeoutMs: 3_000 });
  return next === undefined ? files : [...files, { kernel: newest, running: false, version: versionIn(next) }];
}

/** By their numbers: 5.15.0-9 before 5.15.0-101. */
export function newestKernel(names: readonly string[]): string | undefined {
  const key = (name: string): readonly number[] => (name.match(/\d+/g) ?? []).map(Number);
  return names
    .filter((name) => /^\d+\.\d+/.test(name))
    .toSorted((a, b) => {
      const [left, right] = [key(a), key(b)];
      const at = left.findIndex((part, which) => part !== (right[which] ?? 0));
      return at < 0 ? left.length - right.length : (left[at] ?? 0) - (right[at] ?? 0);
    })
    .at(-1);
}

function versionIn(result: ExecResult | undefined): string | undefined {
  if (result === undefined || result.exitCode !== 0) return undefined;
  return /(?:^|[\s:])(\d{2,4}\.\d{1,3}(?:\.\d{1,3})?)\s*$/m.exec(result.stdout)?.[1];
}

/** Lines that some check reads; the rest of a kernel log says nothing here and can be large. */
const READ_LINES = /NVRM|nvidia|nouveau|key was rejected|module verification failed|fallen off the bus/i;
const LOG_LIMIT = { timeoutMs: 4_000, maxBytes: 32 * 1024 * 1024 };
const MAX_LINES = 5_000;

/** The journal of this boot, else the kernel's own ring. Without rights the journal is empty and the ring refuses. */
async function readKernelLog(runner: Runner): Promise<Read<KernelLog>> {
  const commands = [["journalctl", "-k", "-b", "--no-pager", "-o", "short-iso"], ["dmesg"]];
  let refused: Read<KernelLog> = { kind: "absent" };
  for (const argv of commands) {
    const result = await step("kernel log", LOG_LIMIT.timeoutMs + 500, () => runner.exec(argv, LOG_LIMIT));
    if (result.kind !== "read") {
      if (result.kind === "refused") refused = result;
      continue;
    }
    const lines = result.value.stdout.split("\n").filter((line) => line !== "" && !line.startsWith("-- "));
    if (result.value.exitCode === 0 && lines.length > 0) {
      return { kind: "read", value: { command: argv.join(" "), lines: lines.filter((line) => READ_LINES.test(line)).slice(-MAX_LINES) } };
    }
    if (/not permitted|permission/i.test(result.value.stderr)) refused = { kind: "refused", why: "needs root: kernel log" };
  }
  return refused;
}

/**
 * A runner for a recording that is given away: the kernel log holds only the lines that doctor reads, and its first; a command line only
 * its first three words. The rest names disks, networks, users and keys, and none of it is ever looked at.
 */
export function withExcerpts(runner: Runner): Runner {
  return {
    ...runner,
    exec: async (argv, options) => {
      const result = await runner.exec(argv, options);
      if (result === undefined || !/^(journalctl|dmesg)$/.test(argv[0]?.split("/").at(-1) ?? "")) return result;
      const lines = result.stdout.split("\n").filter((line, at) => at === 0 || READ_LINES.test(line));
      return { ...result, stdout: lines.map((line) => `${line}\n`).join("") };
    },
    readFile: async (path, options) => {
      const bytes = await runner.readFile(path, options);
      if (bytes === undefined || !/^\/proc\/\d+\/cmdline$/.test(path)) return bytes;
      return new TextEncoder().encode(new TextDecoder().decode(bytes).split("\0").slice(0, 3).join("\0"));
    },
  };
}

const SERVICES = ["nvidia-fabricmanager", "nvidia-persistenced", "systemd-timesyncd", "chronyd", "chrony", "ntpd", "ntpsec", "ptp4l"];

async function askServices(runner: Runner): Promise<Readonly<Record<string, Service>> | undefined> {
  const argv = ["systemctl", "show", "--property=Id,LoadState,ActiveState", ...SERVICES.map((name) => `${name}.service`)];
  const result = await runner.exec(argv, { timeoutMs: 3_000 });
  return result === undefined || result.exitCode !== 0 ? undefined : parseServices(result.stdout);
}

/** Blocks of `Key=value` lines with an empty line between units. A unit that is an alias answers with the name of the real one. */
export function parseServices(text: string): Readonly<Record<string, Service>> | undefined {
  const services: Record<string, Service> = {};
  for (const block of text.split(/\n\s*\n/)) {
    const value = (key: string): string | undefined => new RegExp(`^${key}=(.*)$`, "m").exec(block)?.[1]?.trim();
    const [id, load, active] = [value("Id"), value("LoadState"), value("ActiveState")];
    if (id !== undefined && load !== undefined && active !== undefined) services[id.replace(/\.service$/, "")] = { load, active };
  }
  return Object.keys(services).length === 0 ? undefined : services;
}

/** Lines `gpu0/gi1/ci0/access 13`. Source: NVIDIA's MIG guide, section on device nodes. */
export function parseMigMinors(text: string | undefined): MigMinors | undefined {
  if (text === undefined) return undefined;
  return Object.fromEntries(
    text.split("\n").flatMap((line) => {
      const found = /^(gpu\d{1,3}\/gi\d{1,3}(?:\/ci\d{1,3})?)\/access (\d{1,6})\s*$/.exec(line);
      return found === null ? [] : [[found[1] ?? "", Number(found[2])] as const];
    }),
  );
}

const CAPABILITIES = "/proc/driver/nvidia/capabilities";

/** The instances that exist, from the driver's own tree: no call to a card. */
async function listCapabilities(runner: Runner): Promise<readonly CapabilityInstance[] | undefined> {
  const cards = await runner.listDir(CAPABILITIES, READ);
  if (cards === undefined) return undefined;
  const found = await Promise.all(
    numbered(cards, "gpu").map(async (minor) => {
      const folder = `${CAPABILITIES}/gpu${minor}/mig`;
      const instances = numbered((await runner.listDir(folder, READ)) ?? [], "gi");
      return Promise.all(
        instances.map(async (gpuInstanceId) => ({
          minor,
          gpuInstanceId,
          computeInstanceIds: numbered((await runner.listDir(`${folder}/gi${gpuInstanceId}`, READ)) ?? [], "ci"),
        })),
      );
    }),
  );
  return found.flat();
}

function numbered(names: readonly string[], prefix: string): readonly number[] {
  return names
    .filter((name) => new RegExp(`^${prefix}\\d{1,3}$`).test(name))
    .map((name) => Number(name.slice(prefix.length)))
    .toSorted((a, b) => a - b);
}
