/** Recorded adapters of ../shared, each with the problems that a careful person sees: doctor finds them, and nothing that is marked info. */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { type Finding, subjectText } from "../../src/domain/finding.ts";
import { temporaryFolder } from "../support/folders.ts";
import { findingsOf } from "../support/machines.ts";

const FOLDER = join(import.meta.dir, "../../../shared/recorded/sysfs");
const present = existsSync(join(FOLDER, "unpack.ts"));

const Case = v.object({ problems: v.array(v.object({ level: v.picklist(["error", "warn", "info"]), at: v.string(), say: v.string() })) });

/** What is said of a case and is no matter of a node by itself. */
const ELSEWHERE: Readonly<Record<string, RegExp>> = {
  "dgx-spark-gb10": /two adapters, one cage/, // which adapters an engine is given: the launcher's
  "h100-mixed-ib-and-ethernet": /NCCL_IB_HCA/, // how names are written for NCCL: the launcher's
  "rails-indistinguishable": /fabric as unknown/, // the inventory shows no fabric, and its note asks for declarations
};

async function findingsOfCase(name: string): Promise<readonly Finding[]> {
  const { unpack } = await import(join(FOLDER, "unpack.ts"));
  using folder = temporaryFolder();
  writeFileSync(join(folder.path, "machine.yaml"), "about: a recorded case\nsource: recorded\nunrecorded: absent\n");
  unpack(readFileSync(join(FOLDER, `${name}.sysfs`), "utf8"), join(folder.path, "root", "sys"));
  return (await findingsOf(folder.path)).findings;
}

/** Whether a finding is about that port or adapter, by its subject or by its words. */
function isAbout(finding: Finding, at: string): boolean {
  const adapter = at.split("/")[0] ?? at;
  const subject = subjectText(finding.subject);
  if (subject === at || (finding.subject.kind === "adapter" && subject === adapter)) return true;
  if (at === adapter && finding.subject.kind === "port" && finding.subject.adapter === adapter) return true;
  return finding.subject.kind === "node" && new RegExp(`\\b${adapter}\\b`).test(finding.message);
}

const names = present
  ? readdirSync(FOLDER)
      .filter((file) => file.endsWith(".sysfs"))
      .map((file) => file.slice(0, -".sysfs".length))
  : ["../shared/recorded/sysfs is not here"];

describe.each(names)("%s", (name) => {
  test.skipIf(!present)("doctor finds what a careful person finds, and takes nothing for a fault that is none", async () => {
    const { problems } = v.parse(Case, JSON.parse(readFileSync(join(FOLDER, `${name}.json`), "utf8")));
    const findings = await findingsOfCase(name);
    const loud = findings.filter((finding) => finding.result === "problem" || finding.result === "unknown");
    const faults = findings.filter((finding) => finding.result === "problem");
    const missed: string[] = [];
    const expected = problems
      .filter((problem) => problem.level !== "info")
      .flatMap((problem) => problem.at.split(" ").filter((place) => place !== "*"));
    const unexpected = faults.filter((one) => !expected.some((place) => isAbout(one, place)));
    for (const { level, at, say } of problems) {
      const places = at.split(" ").filter((place) => place !== "*");
      if (level === "info") {
        missed.push(
          ...places.flatMap((place) => unexpected.filter((one) => isAbout(one, place)).map((one) => `fault ${one.id} at ${place}: ${say}`)),
        );
        continue;
      }
      if (ELSEWHERE[name]?.test(say) === true) continue;
      const wanted = level === "error" ? faults : loud;
      if (places.length === 0 && wanted.length === 0) missed.push(`nothing for ${at}: ${say}`);
      missed.push(...places.filter((place) => !wanted.some((one) => isAbout(one, place))).map((place) => `nothing at ${place}: ${say}`));
    }
    expect(missed).toEqual([]);
    // A case in which all is info is a healthy one.
    if (problems.every((problem) => problem.level === "info")) expect(faults.map((one) => `${one.id}: ${one.message}`)).toEqual([]);
  });
});
