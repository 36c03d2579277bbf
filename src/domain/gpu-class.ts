/**
 * What a card is: its class, and the compute capability that nvidia-smi's XML never says.
 *
 * A class is the family word of the product name and the memory, snapped to the marketed size, since the driver reports what is
 * left of it (an 80 GB H100 reports 81559 MiB). Form factor (SXM, PCIe, NVL) is not part of it. Sizes and capabilities are
 * NVIDIA's product pages and the CUDA GPU list, read 2026-11; reported sizes are in the fact sheets on MIG and nvidia-smi.
 */

interface Family {
  readonly name: string;
  /** Matches the product name, lower case, without the word "nvidia". */
  readonly pattern: RegExp;
  readonly sizesGb: readonly number[];
  readonly computeCapability: string;
}

/** Word limits matter: "h200" must not match "GH200". The first match counts, so the longer names come first. */
const FAMILIES: readonly Family[] = [
  { name: "gb300", pattern: /\bgb300\b/, sizesGb: [288], computeCapability: "10.3" },
  { name: "gb200", pattern: /\bgb200\b/, sizesGb: [186], computeCapability: "10.0" },
  { name: "gh200", pattern: /\bgh200\b/, sizesGb: [96, 144], computeCapability: "9.0" },
  { name: "b300", pattern: /\bb300\b/, sizesGb: [288], computeCapability: "10.3" },
  { name: "b200", pattern: /\bb200\b/, sizesGb: [180], computeCapability: "10.0" },
  { name: "b100", pattern: /\bb100\b/, sizesGb: [180], computeCapability: "10.0" },
  { name: "h200", pattern: /\bh200\b/, sizesGb: [141], computeCapability: "9.0" },
  { name: "h100", pattern: /\bh100\b/, sizesGb: [64, 80, 94, 96], computeCapability: "9.0" },
  { name: "h800", pattern: /\bh800\b/, sizesGb: [80, 94], computeCapability: "9.0" },
  { name: "h20", pattern: /\bh20\b/, sizesGb: [96, 141], computeCapability: "9.0" },
  { name: "a100", pattern: /\ba100x?\b/, sizesGb: [40, 80], computeCapability: "8.0" },
  { name: "a800", pattern: /\ba800\b/, sizesGb: [40, 80], computeCapability: "8.0" },
  { name: "a30", pattern: /\ba30x?\b/, sizesGb: [24], computeCapability: "8.0" },
  { name: "a40", pattern: /\ba40\b/, sizesGb: [48], computeCapability: "8.6" },
  { name: "a16", pattern: /\ba16\b/, sizesGb: [16], computeCapability: "8.6" },
  { name: "a10g", pattern: /\ba10g\b/, sizesGb: [24], computeCapability: "8.6" },
  { name: "a10", pattern: /\ba10m?\b/, sizesGb: [24], computeCapability: "8.6" },
  { name: "a2", pattern: /\ba2\b/, sizesGb: [16], computeCapability: "8.6" },
  { name: "l40s", pattern: /\bl40s\b/, sizesGb: [48], computeCapability: "8.9" },
  { name: "l40", pattern: /\bl40g?\b/, sizesGb: [48], computeCapability: "8.9" },
  { name: "l20", pattern: /\bl20\b/, sizesGb: [48], computeCapability: "8.9" },
  { name: "l4", pattern: /\bl4\b/, sizesGb: [24], computeCapability: "8.9" },
  { name: "l2", pattern: /\bl2\b/, sizesGb: [24], computeCapability: "8.9" },
  { name: "t4g", pattern: /\bt4g\b/, sizesGb: [16], computeCapability: "7.5" },
  { name: "t4", pattern: /\bt4\b/, sizesGb: [16], computeCapability: "7.5" },
  { name: "v100", pattern: /\bv100s?\b/, sizesGb: [16, 32], computeCapability: "7.0" },
  { name: "p100", pattern: /\bp100\b/, sizesGb: [12, 16], computeCapability: "6.0" },
  { name: "p40", pattern: /\bp40\b/, sizesGb: [24], computeCapability: "6.1" },
  { name: "p4", pattern: /\bp4\b(?!-)/, sizesGb: [8], computeCapability: "6.1" },
  { name: "m60", pattern: /\bm60\b/, sizesGb: [8], computeCapability: "5.2" },
  { name: "m40", pattern: /\bm40\b/, sizesGb: [12, 24], computeCapability: "5.2" },
  { name: "k80", pattern: /\bk80\b/, sizesGb: [12], computeCapability: "3.7" },
  { name: "gb10", pattern: /\bgb10\b/, sizesGb: [128], computeCapability: "12.1" },
  { name: "thor", pattern: /\bthor\b/, sizesGb: [128], computeCapability: "11.0" },
  { name: "orin", pattern: /\borin\b/, sizesGb: [4, 8, 16, 32, 64], computeCapability: "8.7" },
  { name: "rtxpro6000", pattern: /\brtx pro 6000\b/, sizesGb: [96], computeCapability: "12.0" },
  { name: "rtxpro5000", pattern: /\brtx pro 5000\b/, sizesGb: [48, 72], computeCapability: "12.0" },
  { name: "rtxpro4500", pattern: /\brtx pro 4500\b/, sizesGb: [32], computeCapability: "12.0" },
  { name: "rtxpro4000", pattern: /\brtx pro 4000\b/, sizesGb: [24], computeCapability: "12.0" },
  { name: "rtxpro2000", pattern: /\brtx pro 2000\b/, sizesGb: [16], computeCapability: "12.0" },
  { name: "titanv", pattern: /\btitan v\b/, sizesGb: [12, 32], computeCapability: "7.0" },
  { name: "titanrtx", pattern: /\btitan rtx\b/, sizesGb: [24], computeCapability: "7.5" },
  { name: "titanxp", pattern: /\btitan xp\b/, sizesGb: [12], computeCapability: "6.1" },
  { name: "titanx", pattern: /\btitan x \(pascal\)/, sizesGb: [12], computeCapability: "6.1" },
];

/** Families whose name is built from the product name: GeForce, RTX workstation cards. */
interface Series {
  readonly pattern: RegExp;
  readonly name: (found: RegExpExecArray) => string;
  readonly computeCapability: (found: RegExpExecArray) => string | undefined;
}

const GEFORCE_CAPABILITY: Readonly<Record<string, string>> = {
  "50": "12.0",
  "40": "8.9",
  "30": "8.6",
  "20": "7.5",
  "16": "7.5",
  "10": "6.1",
};

const SERIES: readonly Series[] = [
  {
    // GeForce RTX 4090, GTX 1070 Ti, RTX 4080 SUPER, RTX 3080 Laptop GPU
    pattern: /\b(rtx|gtx) (\d{2})(\d{2})( ti)?( super)?( d)?(?: (laptop) gpu)?\b/,
    name: (found) => `${found[1]}${found[2]}${found[3]}${words(found.slice(4, 8))}`,
    computeCapability: (found) => (found[2] === "10" && found[1] !== "gtx" ? undefined : GEFORCE_CAPABILITY[found[2] ?? ""]),
  },
  {
    pattern: /\brtx (\d{4})( sff)? ada(?: generation)?\b/,
    name: (found) => `rtx${found[1]}${words(found.slice(2, 3))}ada`,
    computeCapability: () => "8.9",
  },
  { pattern: /\brtx (a\d{3,4})\b/, name: (found) => `rtx${found[1]}`, computeCapability: () => "8.6" },
  { pattern: /\bquadro rtx (\d{4})\b/, name: (found) => `quadrortx${found[1]}`, computeCapability: () => "7.5" },
  { pattern: /\bquadro (p\d{3,4})\b/, name: (found) => `quadro${found[1]}`, computeCapability: () => "6.1" },
];

/** Marketed memory sizes of cards whose family has no list of its own, GB. */
const USUAL_SIZES_GB: readonly number[] = [1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128];

export interface CardClass {
  readonly class: string;
  readonly computeCapability: string | undefined;
  /** True when the product is not in our table and the class is made from the name. */
  readonly derived: boolean;
}

/**
 * Class of a whole card from its product name and the memory that the driver reports, MiB. Without the memory (unified memory,
 * or a query that failed) the size comes from the name or from a family that has only one; otherwise the class has none.
 */
export function classifyCard(productName: string, memoryTotalMb: number | undefined): CardClass {
  const name = productName
    .toLowerCase()
    .replace(/\bnvidia\b/g, " ")
    .replace(/\s+/g, " ")
    .trim();
  const family = familyOf(name);
  if (family !== undefined) {
    const size = memoryTotalMb === undefined ? nameSize(name, family) : snap(memoryTotalMb, family.sizesGb);
    return { class: withSize(family.name, size), computeCapability: family.computeCapability, derived: false };
  }
  const wholeGb = memoryTotalMb === undefined ? undefined : Math.round(memoryTotalMb / 1024);
  return { class: withSize(slug(name), wholeGb), computeCapability: undefined, derived: true };
}

function familyOf(name: string): (Pick<Family, "name" | "sizesGb"> & { readonly computeCapability: string | undefined }) | undefined {
  // A vGPU ("GRID P4-1Q", "A100-10C") shows a part of a card under the card's name.
  if (/\bgrid\b|-\d+[abcq]\b/.test(name)) return undefined;
  // Quadro and RTX names come first: "RTX A2000" must not be an A2, nor "Quadro RTX 4000" a GeForce.
  for (const series of [...SERIES].reverse()) {
    const found = series.pattern.exec(name);
    if (found !== null) return { name: series.name(found), sizesGb: USUAL_SIZES_GB, computeCapability: series.computeCapability(found) };
  }
  return FAMILIES.find((family) => family.pattern.test(name));
}

/** "…-SXM4-80GB", "H100 80GB HBM3", or the only size of the family. */
function nameSize(name: string, family: Pick<Family, "sizesGb">): number | undefined {
  const told = /\b(\d+) ?gb\b/.exec(name);
  // "GH200 480GB" names the memory of the CPU beside it: only a size that the family has counts.
  if (told !== null && family.sizesGb.includes(Number(told[1]))) return Number(told[1]);
  if (/\bnvl\b/.test(name)) return family.sizesGb.find((size) => size === 94) ?? family.sizesGb[0];
  return family.sizesGb.length === 1 ? family.sizesGb[0] : undefined;
}

/** The nearest marketed size; what is further off than a sixth is taken as it is, in whole GiB. */
function snap(memoryTotalMb: number, sizesGb: readonly number[]): number {
  const gib = memoryTotalMb / 1024;
  const nearest = sizesGb.reduce((best, size) => (Math.abs(size - gib) < Math.abs(best - gib) ? size : best), sizesGb[0] ?? gib);
  return Math.abs(nearest - gib) <= gib / 6 ? nearest : Math.max(1, Math.round(gib));
}

function withSize(name: string, sizeGb: number | undefined): string {
  return sizeGb === undefined || sizeGb === 0 ? name : `${name}-${sizeGb}g`;
}

function words(parts: readonly (string | undefined)[]): string {
  return parts.map((part) => (part ?? "").trim()).join("");
}

function slug(name: string): string {
  const written = name.replace(/[^a-z0-9.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "");
  return written === "" ? "gpu" : written;
}
