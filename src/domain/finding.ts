/** What doctor says of one subject: the shape of `llmgw doctor --json` and of what an agent reports (docs/doctor.md). */
import * as v from "valibot";

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Text = v.string();

/** What happens to work, not how alarming it sounds; the worst first. */
export const Severity = v.picklist(["block", "degrade", "advise"]);
export type Severity = v.InferOutput<typeof Severity>;

export const Result = v.picklist(["ok", "problem", "waived", "skipped", "unknown"]);
export type Result = v.InferOutput<typeof Result>;

export const Group = v.picklist(["driver", "gpu", "mig", "nvlink", "fabric", "host", "engine", "control-plane", "storage"]);
export type Group = v.InferOutput<typeof Group>;

const GpuSubject = {
  uuid: v.optional(Text),
  index: v.optional(v.pipe(Count, v.description("The card's index"))),
  pci_bus_id: v.optional(v.pipe(Text, v.description("0000:17:00.0, lower case"))),
};

export const Subject = v.variant("kind", [
  v.object({ kind: v.literal("node") }),
  v.object({ kind: v.literal("gpu"), ...GpuSubject }),
  v.object({
    kind: v.literal("instance"),
    ...GpuSubject,
    label: v.optional(v.pipe(Text, v.description("3/mig1"))),
    gpu_instance_id: v.optional(Count),
    compute_instance_id: v.optional(Count),
  }),
  v.object({ kind: v.literal("adapter"), name: Text }),
  v.object({ kind: v.literal("port"), adapter: Text, port: Count }),
  v.object({ kind: v.literal("model"), name: Text }),
  v.object({ kind: v.literal("engine"), name: Text }),
  v.object({ kind: v.literal("path"), path: Text }),
]);
export type Subject = v.InferOutput<typeof Subject>;

export const Evidence = v.object({
  source: v.pipe(Text, v.description("Where it was read: a file, or a command and its field")),
  value: Text,
  want: v.optional(v.pipe(Text, v.description("What a healthy machine shows there"))),
});
export type Evidence = v.InferOutput<typeof Evidence>;

/** What a fix asks for before it may be done. */
export const Need = v.picklist(["root", "card-idle", "reset", "reboot", "hands"]);
export type Need = v.InferOutput<typeof Need>;

export const Fix = v.object({
  text: v.pipe(Text, v.description("What to do, in words")),
  command: v.optional(v.pipe(Text, v.description("The next command, ready to be pasted"))),
  needs: v.array(Need),
  safe: v.pipe(v.boolean(), v.description("True when nothing that runs can be hurt by it")),
});
export type Fix = v.InferOutput<typeof Fix>;

export const Finding = v.object({
  id: v.pipe(Text, v.description("The check; stable, never reused")),
  group: Group,
  severity: v.pipe(Severity, v.description("block: no new work there. degrade: others are preferred. advise: nothing changes")),
  result: v.pipe(Result, v.description("skipped: does not apply, and why. unknown: could not be found out, which is not ok")),
  subject: Subject,
  message: v.pipe(Text, v.description("What and where, in one line")),
  evidence: v.array(Evidence),
  fix: v.array(Fix),
  since: v.optional(v.pipe(Text, v.description("When it was first seen; only an agent knows"))),
  ms: v.pipe(v.number(), v.minValue(0), v.description("Time the judging took, ms; reading is shared by all checks")),
});
export type Finding = v.InferOutput<typeof Finding>;

export const DoctorReport = v.object({
  version: v.literal(1),
  findings: v.array(Finding),
});
export type DoctorReport = v.InferOutput<typeof DoctorReport>;

/** What `doctor --json` prints. */
export function reportOf(findings: readonly Finding[]): DoctorReport {
  return { version: 1, findings: [...findings] };
}

const RANK: Readonly<Record<Severity, number>> = { advise: 1, degrade: 2, block: 3 };

/** Whether `severity` is `line` or worse. */
export function atLeast(severity: Severity, line: Severity): boolean {
  return RANK[severity] >= RANK[line];
}

/** The worst severity among problems; `undefined` when there is none. */
export function worstProblem(findings: readonly Finding[]): Severity | undefined {
  const problems = findings.filter((finding) => finding.result === "problem").map((finding) => finding.severity);
  return (["block", "degrade", "advise"] as const).find((severity) => problems.includes(severity));
}

/** The subject as one word for waivers, folding and metrics: `node`, `gpu 3`, `3/mig1`, `mlx5_0/1`, a model's name, a path. */
export function subjectText(subject: Subject): string {
  switch (subject.kind) {
    case "node":
      return "node";
    case "gpu":
      return `gpu ${subject.index ?? subject.pci_bus_id ?? subject.uuid ?? "-"}`;
    case "instance":
      return subject.label ?? `gpu ${subject.index ?? subject.pci_bus_id ?? "-"} gi ${subject.gpu_instance_id ?? "-"}`;
    case "port":
      return `${subject.adapter}/${subject.port}`;
    case "adapter":
    case "model":
    case "engine":
      return subject.name;
    case "path":
      return subject.path;
    default:
      return subject satisfies never;
  }
}
