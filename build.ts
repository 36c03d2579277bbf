/**
 * Builds the released programs: `bun build.ts [--host] [--target NAME]… [--outdir DIR]`, all targets unless told otherwise.
 *
 * The file names are fixed, because the same sources with the same name give the same bytes. Bytecode needs the ESM format (else
 * `import.meta` is refused) and halves the start. `.env`, bunfig.toml, tsconfig.json and package.json of the folder that llmgw is
 * started in are never read.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import packageJson from "./package.json" with { type: "json" };

const TARGETS = ["linux-x64", "linux-x64-baseline", "linux-arm64", "linux-x64-musl", "linux-arm64-musl"] as const;
type Target = (typeof TARGETS)[number];

/** The target of the machine that builds. */
export function hostTarget(): Target {
  const musl = readdirSync("/lib").some((name) => name.startsWith("ld-musl-"));
  if (process.arch === "arm64") return musl ? "linux-arm64-musl" : "linux-arm64";
  if (musl) return "linux-x64-musl";
  return / avx2 /.test(readFileSync("/proc/cpuinfo", "utf8")) ? "linux-x64" : "linux-x64-baseline";
}

/** Compiles one target into `outdir` and returns the program's path. */
export async function buildTarget(target: Target, outdir: string, commit: string): Promise<string> {
  const outfile = join(outdir, `llmgw-${target}`);
  mkdirSync(outdir, { recursive: true });
  const result = await Bun.build({
    entrypoints: [join(import.meta.dir, "src/main.ts")],
    compile: {
      target: `bun-${target}`,
      outfile,
      autoloadDotenv: false,
      autoloadBunfig: false,
      autoloadTsconfig: false,
      autoloadPackageJson: false,
    },
    define: { LLMGW_VERSION: JSON.stringify(packageJson.version), LLMGW_COMMIT: JSON.stringify(commit) },
    minify: true,
    bytecode: true,
    format: "esm",
    splitting: true,
    throw: false,
  });
  if (!result.success) throw new Error(`llmgw-${target} did not build:\n${result.logs.map(String).join("\n")}`);
  return outfile;
}

/** The commit that is built, with "-dirty" when the tree differs from it; "unknown" outside a checkout. */
export function currentCommit(): string {
  const git = (...args: string[]): string | undefined => {
    const run = Bun.spawnSync({ cmd: ["git", ...args], cwd: import.meta.dir, stdout: "pipe", stderr: "ignore" });
    return run.exitCode === 0 ? run.stdout.toString().trim() : undefined;
  };
  const commit = git("rev-parse", "--short=12", "HEAD");
  if (commit === undefined) return "unknown";
  return git("status", "--porcelain", "--untracked-files=no") === "" ? commit : `${commit}-dirty`;
}

/** One line per program, as `sha256sum -c` reads it. */
function writeChecksums(outdir: string): void {
  const names = readdirSync(outdir)
    .filter((name) => name.startsWith("llmgw-"))
    .sort();
  const lines = names.map((name) => `${new Bun.CryptoHasher("sha256").update(readFileSync(join(outdir, name))).digest("hex")}  ${name}\n`);
  writeFileSync(join(outdir, "SHA256SUMS"), lines.join(""));
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { host: { type: "boolean" }, target: { type: "string", multiple: true }, outdir: { type: "string", default: "dist" } },
  });
  const unknown = (values.target ?? []).filter((name) => !TARGETS.some((target) => target === name));
  if (unknown.length > 0) {
    process.stderr.write(`build.ts: unknown target ${unknown.join(", ")}; known: ${TARGETS.join(", ")}\n`);
    process.exitCode = 2;
    return;
  }
  const wanted =
    values.host === true ? [hostTarget()] : TARGETS.filter((target) => values.target === undefined || values.target.includes(target));
  const outdir = resolve(values.outdir);
  if (values.host !== true && values.target === undefined && existsSync(outdir)) rmSync(outdir, { recursive: true });
  const commit = currentCommit();
  for (const target of wanted) process.stdout.write(`${await buildTarget(target, outdir, commit)}\n`);
  writeChecksums(outdir);
}

if (import.meta.main) await main();
