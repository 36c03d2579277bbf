import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import packageJson from "../package.json" with { type: "json" };

const ROOT = join(import.meta.dir, "..");
const SRC = join(ROOT, "src");

/** DESIGN.md, section 4: imports point right only, and folders of one step don't import each other. */
const STEPS: readonly (readonly string[])[] = [
  ["main.ts"],
  ["cli"],
  ["agent", "server"],
  ["gateway", "console"],
  ["doctor"],
  ["discovery", "scheduler"],
  ["engines", "protocol"],
  ["domain", "platform"],
  ["lib"],
];

const files = [...new Bun.Glob("**/*.ts").scanSync({ cwd: SRC })].sort();

/** Every module that a file names, in imports of any kind, type-only and dynamic ones too. */
function importsOf(file: string): readonly string[] {
  const text = readFileSync(join(SRC, file), "utf8");
  return [...text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((found) => found[1] ?? "");
}

function roomOf(file: string): string {
  return file.split("/")[0] ?? "";
}

function stepOf(file: string): number {
  return STEPS.findIndex((rooms) => rooms.includes(roomOf(file)));
}

test("every file stands in a room of the layout", () => {
  expect(files.filter((file) => stepOf(file) < 0)).toEqual([]);
  expect(files.length).toBeGreaterThan(20);
});

test("imports point right only", () => {
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter((name) => name.startsWith("."))
      .map((name) => relative(SRC, resolve(join(SRC, dirname(file)), name)))
      .filter((target) => !target.startsWith("..") && roomOf(target) !== roomOf(file) && stepOf(target) <= stepOf(file))
      .map((target) => `${file} imports ${target}`),
  );
  expect(wrong).toEqual([]);
});

test("each dependency is known to the files that may know it", () => {
  const owners: Readonly<Record<string, RegExp>> = {
    citty: /^cli\/command\.ts$/,
    consola: /^lib\/log\.ts$/,
    "fast-xml-parser": /^discovery\/nvidia-smi\//,
    yaml: /^(lib\/schema-error\.ts|platform\/recorder\.ts)$/,
  };
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter((name) => owners[name] !== undefined && owners[name]?.test(file) === false)
      .map((name) => `${file} imports ${name}`),
  );
  expect(wrong).toEqual([]);
});

test("only platform/ touches the machine: no file, process or device is reached elsewhere", () => {
  const forbidden =
    /\b(?:node:fs|node:child_process|node:os|node:net|bun:ffi|fs\/promises)\b|\bBun\.(?:spawn|spawnSync|file|write|\$|which|connect|listen)\b/;
  const wrong = files.filter((file) => roomOf(file) !== "platform" && forbidden.test(readFileSync(join(SRC, file), "utf8")));
  expect(wrong).toEqual([]);
});

test("only main.ts reads argv and the environment or sets the exit code", () => {
  const wrong = files.filter((file) => {
    if (file === "main.ts" || file === "platform/packed-machines.ts") return false;
    return /\bprocess\.(?:argv|env|exit|exitCode)\b|\bBun\.(?:argv|env)\b/.test(readFileSync(join(SRC, file), "utf8"));
  });
  expect(wrong).toEqual([]);
});

test("domain and scheduler are pure: no clock, no chance, no environment", () => {
  const forbidden = /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bprocess\.|\bcrypto\.randomUUID\b/;
  const pure = files.filter((file) => ["domain", "scheduler", "engines"].includes(roomOf(file)));
  expect(pure.filter((file) => forbidden.test(readFileSync(join(SRC, file), "utf8")))).toEqual([]);
});

test("each folder opens with a README.md", () => {
  const folders = readdirSync(SRC, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(folders.filter((folder) => !existsSync(join(SRC, folder.name, "README.md"))).map((folder) => folder.name)).toEqual([]);
});

test("package.json depends on what the design names and nothing else", () => {
  expect(Object.keys(packageJson.dependencies).toSorted()).toEqual(["bun", "citty", "consola", "fast-xml-parser", "valibot", "yaml"]);
  expect(Object.keys(packageJson.devDependencies).toSorted()).toEqual(["@biomejs/biome", "@types/bun", "fast-check", "typescript"]);
});
