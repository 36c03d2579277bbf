/** `machine.yaml`, the table of contents of a recorded machine (DESIGN.md, section 5). People write it: typos are errors. */
import * as v from "valibot";

const AbsolutePath = v.pipe(v.string(), v.regex(/^\//, "an absolute path"));
const FileName = v.pipe(v.string(), v.regex(/^[^/\0]+$/, "the name of a file beside machine.yaml"));
const Bytes = v.pipe(v.number(), v.integer(), v.minValue(0));

export const RecordedCommand = v.strictObject({
  argv: v.pipe(
    v.array(v.string()),
    v.minLength(1, "a program and its arguments"),
    v.description("Program and arguments. The program is matched by its base name, the arguments exactly"),
  ),
  stdout: v.optional(v.pipe(FileName, v.description("File with what it printed; nothing when left out"))),
  stderr: v.optional(v.pipe(FileName, v.description("File with what it printed on stderr"))),
  exit: v.optional(v.pipe(v.number(), v.integer(), v.description("Exit code. Default 0"))),
  delay_ms: v.optional(v.pipe(v.number(), v.minValue(0), v.description("Time until it answers"))),
  busy: v.optional(v.pipe(v.boolean(), v.description("It was not asked: an earlier query still hung in the driver"))),
  hangs: v.optional(v.pipe(v.boolean(), v.description("It never ends: the caller runs into its time limit"))),
});
export type RecordedCommand = v.InferOutput<typeof RecordedCommand>;

export const MachineFile = v.strictObject({
  about: v.pipe(v.string(), v.minLength(1, "one sentence"), v.description("One sentence: what this machine is")),
  source: v.pipe(
    v.picklist(["recorded", "trimmed", "composed"]),
    v.description("How true it is: as the machine answered, shortened by hand, or put together from facts"),
  ),
  from: v.optional(v.pipe(v.string(), v.description("For a composed machine: from which facts"))),
  recorded_at: v.optional(
    v.pipe(
      v.string(),
      v.check((text) => !Number.isNaN(Date.parse(text)), "a time such as 2026-11-30T12:00:00Z"),
      v.description("The machine's clock, for whatever asks for the time"),
    ),
  ),
  home: v.optional(v.pipe(AbsolutePath, v.description("Home of the user who recorded it. Default `/root`"))),
  unrecorded: v.optional(
    v.pipe(
      v.picklist(["error", "absent"]),
      v.description("What asking for something outside the recording means: a loud failure (default), or that it is not there"),
    ),
  ),
  commands: v.optional(v.pipe(v.array(RecordedCommand), v.description("Commands that were run, with their answers"))),
  nvml_fails: v.optional(
    v.pipe(
      v.string(),
      v.description("Why NVIDIA's library gave nothing, in its words. Without it and without nvml.json there is no library"),
    ),
  ),
  absent_commands: v.optional(v.pipe(v.array(v.string()), v.description("Programs that are not installed"))),
  absent: v.optional(v.pipe(v.array(AbsolutePath), v.description("Paths that were not there, and nothing below them"))),
  unreadable: v.optional(v.pipe(v.array(AbsolutePath), v.description("Paths that may not be read, and nothing below them"))),
  disks: v.optional(
    v.pipe(
      v.record(
        AbsolutePath,
        v.strictObject({ total_bytes: Bytes, free_bytes: Bytes, total_inodes: v.optional(Bytes), free_inodes: v.optional(Bytes) }),
      ),
      v.description("Size and free space of the file system behind a path, and its inodes where it counts them"),
    ),
  ),
});
export type MachineFile = v.InferOutput<typeof MachineFile>;
