/** Finds and opens a recorded machine by folder or by name. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { suggest } from "../lib/suggest.ts";
import { messageOf, UserError } from "../lib/user-error.ts";
import { parseYamlText } from "../lib/yaml-file.ts";
import { MachineFile } from "./machine-file.ts";
import { createRecordedRunner, type RecordedRunnerOptions } from "./recorded-runner.ts";
import type { Runner } from "./runner.ts";

/** Where names are looked for on disk: beside the sources, then below the current folder. The released program carries its own. */
function machineFolders(): readonly string[] {
  return [join(import.meta.dir, "../../fakes/machines"), resolve("fakes/machines")];
}

/** Opens `--machine DIR|NAME`. Throws a `UserError` naming what is missing or does not fit. */
export async function openMachine(nameOrFolder: string, options: RecordedRunnerOptions = {}): Promise<Runner> {
  const folder = await findMachine(nameOrFolder);
  return createRecordedRunner(basename(resolve(folder)), folder, await readMachineFile(folder), options);
}

async function findMachine(nameOrFolder: string): Promise<string> {
  if (existsSync(nameOrFolder)) return resolve(nameOrFolder);
  if (!nameOrFolder.includes("/")) {
    for (const folder of machineFolders()) {
      if (existsSync(join(folder, nameOrFolder, "machine.yaml"))) return join(folder, nameOrFolder);
    }
    const unpacked = (await import("./packed-machines.ts")).unpackMachine(nameOrFolder);
    if (unpacked !== undefined) return unpacked;
  }
  const names = await machineNames();
  const near = suggest(nameOrFolder, names);
  throw new UserError({
    what: `there is no recorded machine "${nameOrFolder}"`,
    why: `it is neither a folder here nor the name of one${names.length === 0 ? "" : ` (known: ${names.join(", ")})`}`,
    fix: near === undefined ? "give the folder that holds machine.yaml" : `did you mean --machine ${near}?`,
  });
}

/** Names that `--machine` takes without a folder. */
export async function machineNames(): Promise<readonly string[]> {
  for (const folder of machineFolders()) {
    if (!existsSync(folder)) continue;
    const names = readdirSync(folder).filter((name) => existsSync(join(folder, name, "machine.yaml")));
    if (names.length > 0) return names.sort();
  }
  return (await import("./packed-machines.ts")).packedNames();
}

async function readMachineFile(folder: string): Promise<MachineFile> {
  const file = join(folder, "machine.yaml");
  if (!statSync(folder).isDirectory() || !existsSync(file)) {
    throw new UserError({
      what: `${folder} is not a recorded machine`,
      why: "it holds no machine.yaml",
      fix: "record one with: llmgw inventory --record DIR",
    });
  }
  const text = readRecording(file);
  const machine = await parseYamlText(MachineFile, text, file, "mend the file; its keys are in docs/reference/machine-yaml.md");
  for (const command of machine.commands ?? []) {
    for (const name of [command.stdout, command.stderr]) {
      if (name === undefined || existsSync(join(folder, name))) continue;
      throw new UserError({
        what: `${folder} is not complete`,
        why: `machine.yaml names the file "${name}" for "${command.argv.join(" ")}", and there is no such file`,
        fix: "add the file, or record the machine again",
      });
    }
  }
  return machine;
}

function readRecording(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new UserError({ what: `${file} cannot be read`, why: messageOf(error), fix: "check the rights of the folder" }, { cause: error });
  }
}
