/** MIG profile names and device indexes (reference: NVIDIA MIG user guide R580; NVML profile names up to 610). */

/** A parsed profile name, such as `1c.3g.40gb` or `1g.10gb+me`. */
export interface MigProfile {
  /** Compute slices, only where the compute instance is smaller than its GPU instance. */
  readonly computeSlices: number | undefined;
  /** SM slices of the GPU instance. */
  readonly gpuSlices: number;
  /** The number before `gb`: rounded for display, never the usable memory. */
  readonly nominalGb: number;
  /** `me`, `me.all`, `gfx`: what the instance has beyond the plain profile. */
  readonly attributes: readonly string[];
  /** `me` for `-me`: what it lacks. */
  readonly without: string | undefined;
}

const PROFILE = /^(?:(\d+)c\.)?(\d+)g\.(\d+)gb(?:\+([a-z][a-z.]*(?:,[a-z][a-z.]*)*)|-([a-z][a-z.]*))?$/;

/** Parses a profile name as `nvidia-smi -L` prints it. `undefined` for a name of another form: new attributes will come. */
export function parseMigProfile(text: string): MigProfile | undefined {
  const found = PROFILE.exec(text);
  if (found === null) return undefined;
  return {
    computeSlices: found[1] === undefined ? undefined : Number(found[1]),
    gpuSlices: Number(found[2]),
    nominalGb: Number(found[3]),
    attributes: found[4] === undefined ? [] : found[4].split(","),
    without: found[5],
  };
}

/** Device index of an instance: `1000 + 100 × card + instance`. */
export function migDeviceIndex(card: number, instance: number): number {
  return 1000 + 100 * card + instance;
}

/** What people see of an instance: `3/mig1`. */
export function migLabel(card: number, instance: number): string {
  return `${card}/mig${instance}`;
}

/** Class of an instance: its card's class, `-mig-`, its profile with `+x` and `,x` written `.x` and `-me` written `.nome`. */
export function migClass(cardClass: string, profile: string): string {
  const written = profile
    .toLowerCase()
    .replace(/-(?=[a-z])/g, ".no")
    .replaceAll("+", ".")
    .replaceAll(",", ".")
    .replace(/[^a-z0-9.]+/g, "");
  return `${cardClass}-mig-${written}`;
}
