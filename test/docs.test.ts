import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DOCTOR_PAGE, doctorPage, REFERENCE_FOLDER, referencePages } from "./reference-pages.ts";

const ROOT = join(import.meta.dir, "..");

for (const [name, text] of referencePages()) {
  test(`docs/reference/${name} is what the schema says (bun test/reference-pages.ts rewrites it)`, () => {
    expect(readFileSync(join(REFERENCE_FOLDER, name), "utf8")).toBe(text);
  });
}

test("docs/doctor.md is what the checks say (bun test/reference-pages.ts rewrites it)", () => {
  expect(readFileSync(DOCTOR_PAGE, "utf8")).toBe(doctorPage());
});

test("docs/reference holds generated pages only", () => {
  expect(readdirSync(REFERENCE_FOLDER).sort()).toEqual([...referencePages().keys()].sort());
});

test("every relative link in a Markdown page leads somewhere", () => {
  const pages = ["*.md", "docs/**/*.md", "src/**/*.md", "fakes/**/README.md"].flatMap((glob) => [
    ...new Bun.Glob(glob).scanSync({ cwd: ROOT }),
  ]);
  const broken = pages.flatMap((page) => {
    const links = [...readFileSync(join(ROOT, page), "utf8").matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map((found) => found[1] ?? "");
    return links.filter((link) => !/^[a-z]+:/.test(link) && !existsSync(join(ROOT, dirname(page), link))).map((link) => `${page}: ${link}`);
  });
  expect(pages.length).toBeGreaterThan(10);
  expect(broken).toEqual([]);
});
