/** Where NVIDIA's library is looked for. */
import { existsSync } from "node:fs";
import { join } from "node:path";

/** Only this name is guaranteed: the one without a number is a link for developers, or a stub of the CUDA toolkit. */
const FILE = "libnvidia-ml.so.1";

/** The last two are where GKE and NixOS mount a driver. */
const FOLDERS = [
  "/usr/lib/x86_64-linux-gnu",
  "/usr/lib/aarch64-linux-gnu",
  "/usr/lib64",
  "/usr/lib",
  "/lib64",
  "/usr/lib/wsl/lib",
  "/usr/local/nvidia/lib64",
  "/run/opengl-driver/lib",
];

/** Libraries of this machine that are there, in the order of trying; `library` alone where somebody named it. */
export function nvmlCandidates(library: string | undefined): readonly string[] {
  if (library !== undefined) return [library];
  return FOLDERS.map((folder) => join(folder, FILE)).filter((path) => existsSync(path));
}
