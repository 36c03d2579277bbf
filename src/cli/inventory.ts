/** `llmgw inventory`, also `llmgw agent inventory`: what this node has. */
import { resolve } from "node:path";
import { type DiscoverOptions, discover, discoverWithSources } from "../discovery/discover.ts";
import { checkIbRoot } from "../discovery/infiniband.ts";
import { type ChosenOptions, discoverOptions, replayedModelDirs } from "../discovery/options.ts";
import type { Inventory } from "../domain/inventory.ts";
import { UserError } from "../lib/user-error.ts";
import type { Recorder } from "../platform/recorder.ts";
import { type Runner, RunnerError } from "../platform/runner.ts";
import { defineCommand } from "./command.ts";
import type { Context } from "./context.ts";

export const inventory = defineCommand({
  name: "inventory",
  summary: "what this node has: cards, MIG instances, adapters, weights",
  description: "Reads only. Exit code 0 also when the driver is broken, since the report is then the useful part.",
  flags: {
    json: { kind: "boolean", summary: "print data instead of the table" },
    "nvidia-smi": { kind: "string", hint: "PATH", summary: "run this nvidia-smi instead of the one on the PATH" },
    "ib-root": { kind: "string", hint: "DIR", summary: "read adapters from DIR instead of /sys/class/infiniband" },
    "no-gpu": { kind: "boolean", summary: "do not look for cards" },
    "only-gpus": { kind: "boolean", summary: "look for cards and nothing else" },
    nvml: { kind: "boolean", negatable: true, summary: "ask the NVML library first, or not at all; by default where it is there" },
    "nvml-library": { kind: "string", hint: "PATH", summary: "load this NVML library instead of the one at the usual places" },
    "model-dir": {
      kind: "string",
      multiple: true,
      hint: "DIR",
      summary: "look for weights here instead of the usual folders; may be repeated",
    },
    record: { kind: "string", hint: "DIR", summary: "also write what was read as a recorded machine, identities replaced" },
    "record-raw": { kind: "boolean", summary: "with --record: serial numbers, UUIDs, host and user names as they are" },
  },
  examples: ["llmgw inventory", "llmgw inventory --json --machine h100-nvswitch-8", "llmgw inventory --record ./my-node"],
  run: async (ctx, args) => {
    if (args["no-gpu"] === true && args["only-gpus"] === true) throw contradiction("--no-gpu", "--only-gpus");
    if (args["record-raw"] === true && args.record === undefined) {
      throw new UserError(
        { what: "--record-raw goes with --record", why: "it says how a recording is written", fix: "add --record DIR" },
        { usage: true },
      );
    }
    const host = await ctx.runner();
    const gpus = args["no-gpu"] === true ? "none" : args["only-gpus"] === true ? "only" : "all";
    const absolute = (path: string): string => (host.kind === "host" ? resolve(path) : path);
    const modelDirs = args["model-dir"]?.map(absolute);
    const library = args["nvml-library"];
    if (args.nvml === false && library !== undefined) throw contradiction("--no-nvml", "--nvml-library");
    const nvml = { nvml: args.nvml, nvmlLibrary: library === undefined ? undefined : absolute(library) };
    const flags = { nvidiaSmi: args["nvidia-smi"], ibRoot: args["ib-root"], modelDirs, gpus, ...nvml } as const;
    const env = host.kind === "host" ? ctx.env : {};
    const chosen = await discoverOptions(host, flags, env);
    await checkPlaces(host, flags);
    // What only some calls need is loaded by them: the driver is to be asked as early as possible.
    const recorder = args.record === undefined ? undefined : await startRecorder(host, args.record, chosen.options.modelDirs);
    // Read once more through the recorder, so that agent.yaml is part of the recording.
    if (recorder !== undefined) await discoverOptions(recorder.runner, flags, env);
    const found = recorder === undefined ? await inspect(ctx, host, chosen.options) : await inspectAll(ctx, recorder.runner, chosen);
    const data: Inventory = { ...found, warnings: [...chosen.warnings, ...found.warnings] };
    if (recorder !== undefined && args.record !== undefined) {
      const names = { users: usersOf(ctx), hostnames: data.hostname === undefined ? [] : [data.hostname] };
      const summary = recorder.write(args.record, { about: aboutOf(data), raw: args["record-raw"] === true, ...names });
      ctx.log.info("recording written", { folder: summary.folder, commands: summary.commands, files: summary.files });
    }
    if (args.json === true) return { data, text: "" };
    const { renderInventory } = await import("./render-inventory.ts");
    return { data, text: (view) => renderInventory(data, { color: view.color, gpus }) };
  },
});

async function startRecorder(host: Runner, folder: string, modelDirs: readonly string[]): Promise<Recorder> {
  const { checkRecordFolder, createRecorder } = await import("../platform/recorder.ts");
  checkRecordFolder(folder);
  const { withExcerpts } = await import("../doctor/collect-driver.ts");
  return createRecorder(withExcerpts(host), [...modelDirs, ...replayedModelDirs(host.home)]);
}

async function inspect(ctx: Context, runner: Runner, options: DiscoverOptions): Promise<Inventory> {
  const progress = ctx.progress("looking at this node: nvidia-smi, adapters, model folders");
  try {
    return await discover(runner, { ...options, signal: ctx.signal });
  } finally {
    progress.done();
  }
}

/** For a recording: what doctor reads beside the inventory is looked at as well, so that doctor can judge the recorded machine. */
async function inspectAll(ctx: Context, runner: Runner, chosen: ChosenOptions): Promise<Inventory> {
  const { collectBeside } = await import("../doctor/collect.ts");
  const progress = ctx.progress("looking at this node: all that inventory and doctor read");
  try {
    // A recording holds both sources, so that whoever replays it can compare them.
    const found = discoverWithSources(runner, { ...chosen.options, bothSources: true, signal: ctx.signal });
    await collectBeside(runner, { discover: chosen.options, config: chosen.config, warnings: [] }, found);
    return (await found).inventory;
  } finally {
    progress.done();
  }
}

/** What a person named must be there: an empty report about a mistyped folder would be believed. */
async function checkPlaces(
  runner: Runner,
  flags: {
    readonly nvidiaSmi: string | undefined;
    readonly nvmlLibrary: string | undefined;
    readonly ibRoot: string | undefined;
    readonly modelDirs: readonly string[] | undefined;
  },
): Promise<void> {
  if (flags.ibRoot !== undefined) {
    const problem = await checkIbRoot(runner, flags.ibRoot);
    if (problem !== undefined) {
      throw new UserError({
        what: `--ib-root ${flags.ibRoot} cannot be used`,
        why: problem,
        fix: "leave it out to read /sys/class/infiniband",
      });
    }
  }
  for (const folder of flags.modelDirs ?? []) {
    const why = await whyNoFolder(runner, folder);
    if (why !== undefined)
      throw new UserError({ what: `--model-dir ${folder} cannot be used`, why, fix: "give a folder that this user can read" });
  }
  const library = flags.nvmlLibrary;
  if (library !== undefined && runner.kind === "host" && (await runner.stat(library)) === undefined) {
    throw new UserError({
      what: `--nvml-library ${library} cannot be used`,
      why: "there is no such file",
      fix: "leave it out to use the one that the driver installed",
    });
  }
  const program = flags.nvidiaSmi;
  if (program?.includes("/") === true && runner.kind === "host" && (await runner.stat(program)) === undefined) {
    throw new UserError({
      what: `--nvidia-smi ${program} cannot be used`,
      why: "there is no such file",
      fix: "leave it out to use the one on the PATH",
    });
  }
}

async function whyNoFolder(runner: Runner, folder: string): Promise<string | undefined> {
  try {
    return (await runner.listDir(folder)) === undefined ? "there is no such folder" : undefined;
  } catch (error) {
    // It is there: that it may not be read is a warning of the report, whose rest is still useful.
    if (error instanceof RunnerError) return undefined;
    throw error;
  }
}

function contradiction(one: string, other: string): UserError {
  return new UserError(
    { what: `${one} and ${other} contradict each other`, why: "together they leave nothing to look for", fix: "give one of them" },
    { usage: true },
  );
}

/** One sentence for machine.yaml, without anything that names the node. */
function aboutOf(inventory: Inventory): string {
  const counts = new Map<string, number>();
  for (const gpu of inventory.gpus) counts.set(gpu.class, (counts.get(gpu.class) ?? 0) + 1);
  const devices = [...counts].map(([name, count]) => `${count} × ${name}`).join(", ");
  const cards = devices === "" ? "no usable card" : devices;
  return `${cards}; ${inventory.hcas.length} adapters; source ${inventory.source}`;
}

/** Names that may stand in paths and process names of this user's own programs. */
function usersOf(ctx: Context): readonly string[] {
  return [ctx.env.USER, ctx.env.LOGNAME, ctx.env.SUDO_USER].filter((name) => name !== undefined);
}
