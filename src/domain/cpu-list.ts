/** CPU lists as the kernel and nvidia-smi print them: `0-47,96-143` (kernel: Documentation/admin-guide/kernel-parameters, cpu-list). */

/** Far above any kernel's NR_CPUS: what is higher is no CPU number but a misread text. */
const HIGHEST_CPU = 1_048_575;

/**
 * The list in its one form: rising, ranges joined where they touch, no spaces, a single CPU without a dash (`1-1`, which nvidia-smi
 * prints, is `1`). `undefined` when the text is empty or no list: `N/A`, a reversed range, a stride (`0-31:2/4`, which people write
 * on the kernel's command line and no file of sysfs holds).
 */
export function parseCpuList(text: string): string | undefined {
  const ranges: { readonly first: number; readonly last: number }[] = [];
  for (const part of text.trim().split(",")) {
    const found = /^(\d{1,7})(?:-(\d{1,7}))?$/.exec(part.trim());
    if (found === null) return undefined;
    const first = Number(found[1]);
    const last = Number(found[2] ?? found[1]);
    if (last < first || last > HIGHEST_CPU) return undefined;
    ranges.push({ first, last });
  }
  return joined(ranges)
    .map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`))
    .join(",");
}

function joined(ranges: readonly { readonly first: number; readonly last: number }[]) {
  const result: { first: number; last: number }[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = result.at(-1);
    if (before !== undefined && range.first <= before.last + 1) before.last = Math.max(before.last, range.last);
    else result.push({ ...range });
  }
  return result;
}
