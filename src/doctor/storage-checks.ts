/** Checks on model files and the disks they are on. */
import type { Check, Verdict } from "./check.ts";
import type { Facts } from "./facts.ts";
import { evidence, fix, ok, skipped, unknown } from "./verdict.ts";

export const storageChecks: readonly Check[] = [
  {
    id: "store-weights",
    group: "storage",
    severity: "block",
    depends_on: [],
    title: "the files of every model are there and whole",
    explain:
      "Each shard that a model's index names must be there, with the length that its header gives; a clone without git-lfs leaves small text files in their place. Only whole models are placed. A model that is placed here blocks; one that nothing here uses is advice, and one that is being downloaded is left alone. Read from the headers of the files.",
    judge: judgeWeights,
  },
  {
    id: "store-access",
    group: "storage",
    severity: "block",
    depends_on: [],
    title: "the model folders can be read",
    explain:
      "Every folder on the way must let the engines' user through. The first one that does not is named. A folder that does not exist is no fault, unless agent.yaml names it. Looked at as the user who runs this: when that is not root, a refusal says nothing about the engines' user.",
    judge: judgeAccess,
  },
  {
    id: "store-disk",
    group: "storage",
    severity: "degrade",
    depends_on: [],
    title: "a tenth of every disk is free",
    explain:
      "A full disk stops downloads half way, and logs and caches with them. Under 10 % free is a warning, under 1 % blocks; of inodes as well. Looked at: the disks behind the model folders, and the root disk, where logs and temporary files go.",
    judge: judgeDisks,
  },
];

function judgeWeights(facts: Facts): readonly Verdict[] {
  const { weights } = facts.inventory;
  if (weights.length === 0) return [skipped("no models on disk")];
  return weights.map((model): Verdict => {
    const subject = { kind: "model" as const, name: model.name };
    const users = (facts.models ?? []).filter((one) => one.path === model.path);
    if (model.state === "complete") return ok(`${model.name} is whole`, subject);
    if (model.state === "downloading") return skipped(`${model.name} is being downloaded`, subject);
    return {
      result: "problem",
      subject,
      severity: users.length > 0 ? "block" : "advise",
      message: `${model.name}: not whole: ${model.problems[0] ?? "files are missing or short"}`,
      evidence: model.problems.slice(0, 8).map((problem) => evidence(model.path, problem)),
      fix: [fix(`download it again into ${model.path}, or remove it if nobody needs it`, `ls -l ${model.path}`, [], true)],
    };
  });
}

function judgeAccess(facts: Facts): readonly Verdict[] {
  const named = facts.config.model_dirs ?? [];
  const there = facts.modelFolders.filter((folder) => folder.access !== "absent" || named.includes(folder.path));
  if (there.length === 0) return [skipped("no model folder exists here")];
  return there.map((folder): Verdict => {
    const subject = { kind: "path" as const, path: folder.path };
    switch (folder.access) {
      case "readable":
        return ok(`${folder.path} can be read`, subject);
      case "absent":
        return {
          result: "problem",
          subject,
          message: `${folder.path} does not exist, and agent.yaml names it`,
          evidence: [evidence("agent.yaml, model_dirs", folder.path, "a folder")],
          fix: [fix("make it, mount it, or take it out of agent.yaml", `mkdir -p ${folder.path}`, ["root"], true)],
        };
      case "hung":
        return {
          result: "problem",
          subject,
          message: `${folder.path} does not answer: its file server is away or slow`,
          evidence: [evidence(folder.path, "no answer within 3 s", "an answer")],
          fix: [fix("look at the mount and its server", `findmnt -T ${folder.path}`, [], true)],
        };
      case "refused":
        if (facts.root === false) return unknown(`needs root, or the engines' user: ${folder.path}`, subject);
        return {
          result: "problem",
          subject,
          message: `this user cannot read ${folder.path} (stops at ${folder.stopsAt ?? folder.path})`,
          evidence: [evidence(folder.stopsAt ?? folder.path, "permission denied", "readable")],
          fix: [fix("let the engines' user through", `chmod o+rx ${folder.stopsAt ?? folder.path}`, ["root"], true)],
        };
      default:
        return folder.access satisfies never;
    }
  });
}

const [LOW, EMPTY] = [0.1, 0.01];
const MB = 1024 * 1024;

function judgeDisks(facts: Facts): readonly Verdict[] {
  const disks = [
    ...facts.inventory.storage.flatMap((disk) =>
      disk.total_mb === undefined || disk.free_mb === undefined ? [] : [{ path: disk.path, total: disk.total_mb, free: disk.free_mb }],
    ),
    ...facts.disks.map((disk) => ({ path: disk.path, total: disk.space.total_bytes / MB, free: disk.space.free_bytes / MB })),
  ];
  if (disks.length === 0) return [unknown("no disk could be looked at")];
  return [...disks.map((disk) => judgeDisk(disk)), ...facts.disks.flatMap((disk) => judgeInodes(disk))];
}

/** Only said where they run out: many small files fill a disk that has room. */
function judgeInodes({ path, space }: Facts["disks"][number]): readonly Verdict[] {
  const { total_inodes: total, free_inodes: free } = space;
  if (total === undefined || free === undefined || total === 0 || free >= total * LOW) return [];
  return [
    {
      result: "problem",
      severity: free < total * EMPTY ? "block" : "degrade",
      subject: { kind: "path", path },
      message: `${path}: ${free} of ${total} inodes free: no more files can be made soon, whatever room there is`,
      evidence: [evidence(`inodes behind ${path}`, `${((free / total) * 100).toFixed(1)} % free`, "10 % or more")],
      fix: [fix("look for folders with very many files", `du -x --inodes -d 3 ${path} | sort -n | tail`, ["root"], true)],
    },
  ];
}

function judgeDisk({ path, total, free }: { readonly path: string; readonly total: number; readonly free: number }): Verdict {
  const subject = { kind: "path" as const, path };
  if (!(total > 0)) return skipped(`${path} is on no disk of a known size`, subject);
  if (free >= total * LOW) return ok(`${path}: ${gib(free)} free of ${gib(total)}`, subject);
  return {
    result: "problem",
    severity: free < total * EMPTY ? "block" : "degrade",
    subject,
    message: `${path}: ${gib(free)} free of ${gib(total)}`,
    evidence: [evidence(`disk behind ${path}`, `${((free / total) * 100).toFixed(1)} % free`, "10 % or more")],
    fix: [
      fix(
        "look for what fills it; models that nobody needs are listed by the inventory",
        `du -xh -d 2 ${path} | sort -h | tail`,
        ["root"],
        true,
      ),
    ],
  };
}

function gib(mb: number): string {
  return mb >= 1024 ? `${(mb / 1024).toFixed(1)} GiB` : `${Math.round(mb)} MiB`;
}
