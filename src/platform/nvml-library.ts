/**
 * Loads NVML and binds its functions: libc's own `dlopen` and `dlsym` through bun:ffi, then one `linkSymbols` with what was found.
 *
 * Not `dlopen` of bun:ffi, because one missing symbol would cost the whole map, and because it looks for a bare name in the current
 * folder too. Libraries are asked for by absolute path only: neither the current folder nor LD_LIBRARY_PATH is ever searched.
 */
import { dlopen, type FFIFunction, linkSymbols } from "bun:ffi";
import { readFileSync } from "node:fs";
import { isAbsolute } from "node:path";
import { messageOf } from "../lib/user-error.ts";
import { NVML_CODES, NVML_SYMBOLS, type NvmlSymbol } from "./nvml-layout.ts";
import { nvmlCandidates } from "./nvml-places.ts";

export type NvmlValue = number | bigint | Uint8Array;

export interface NvmlLibrary {
  readonly path: string;
  /** Calls a function and returns its code; 13 when this driver's library lacks it. */
  call(symbol: NvmlSymbol, ...args: readonly NvmlValue[]): number;
}

export type LoadedNvml =
  | { readonly kind: "loaded"; readonly library: NvmlLibrary }
  | { readonly kind: "absent" }
  | { readonly kind: "failed"; readonly text: string };

/** Loads the first library that can be loaded. It stays loaded: nothing is gained by closing it, and a late call would crash. */
export function loadNvml(library: string | undefined): LoadedNvml {
  if (library !== undefined && !isAbsolute(library)) return { kind: "failed", text: `${library} is not an absolute path` };
  const candidates = nvmlCandidates(library);
  if (candidates.length === 0) return { kind: "absent" };
  try {
    const loader = bindLoader();
    if (loader === undefined) return { kind: "failed", text: "this program runs without glibc, which NVIDIA's library needs" };
    const problems: string[] = [];
    for (const path of candidates) {
      const handle = loader.dlopen(path);
      if (handle !== 0n) return { kind: "loaded", library: bindLibrary(path, loader, handle) };
      problems.push(loader.dlerror() ?? `${path} could not be loaded`);
    }
    return { kind: "failed", text: problems.join("; ") };
  } catch (error) {
    // Under systemd's MemoryDenyWriteExecute, bun:ffi refuses to work at all.
    return { kind: "failed", text: `the library could not be bound: ${messageOf(error)}` };
  }
}

interface Loader {
  dlopen(path: string): bigint;
  /** The address, 0n when the library has no such symbol. */
  dlsym(handle: bigint, name: string): bigint;
  dlerror(): string | undefined;
}

const RTLD_LAZY = 1;

/** From the libc that this process has mapped, by its absolute path. Before glibc 2.34 the functions are in libdl. */
function bindLoader(): Loader | undefined {
  for (const path of mapped(/\/lib(?:c|dl)(?:\.so\.\d+|-2\.\d+\.so)$/)) {
    try {
      const { symbols } = dlopen(path, {
        dlopen: { args: ["ptr", "i32"], returns: "u64" },
        dlsym: { args: ["u64", "ptr"], returns: "u64" },
        dlerror: { args: [], returns: "cstring" },
      });
      return {
        dlopen: (library) => symbols.dlopen(cString(library), RTLD_LAZY),
        dlsym: (handle, name) => symbols.dlsym(handle, cString(name)),
        dlerror: () => {
          const text = symbols.dlerror();
          return text === null ? undefined : String(text);
        },
      };
    } catch {
      // This one lacks them: the next may not.
    }
  }
  return undefined;
}

/** Paths of the files that this process has mapped, each once, libc before libdl. */
function mapped(name: RegExp): readonly string[] {
  const paths = readFileSync("/proc/self/maps", "utf8")
    .split("\n")
    .map((line) => line.slice(line.indexOf("/")))
    .filter((path) => path.startsWith("/") && name.test(path));
  return [...new Set(paths)].sort();
}

function cString(text: string): Uint8Array {
  return Buffer.from(`${text}\0`);
}

function bindLibrary(path: string, loader: Loader, handle: bigint): NvmlLibrary {
  const found: Record<string, FFIFunction & { readonly ptr: bigint }> = {};
  for (const [name, args] of Object.entries(NVML_SYMBOLS)) {
    const address = loader.dlsym(handle, name);
    if (address !== 0n) found[name] = { args: [...args], returns: "i32", ptr: address };
  }
  const symbols: Readonly<Record<string, object>> = Object.keys(found).length === 0 ? {} : linkSymbols(found).symbols;
  return {
    path,
    call: (symbol, ...args) => {
      const bound = symbols[symbol];
      if (typeof bound !== "function") return NVML_CODES.functionNotFound;
      const code: unknown = Reflect.apply(bound, undefined, args);
      if (typeof code !== "number") throw new Error(`${symbol} returned no number`);
      return code;
    },
  };
}
