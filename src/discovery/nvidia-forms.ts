/** The calls of nvidia-smi that every look begins with, side by side, and their limit. */

export const NVIDIA_SMI_FORMS: readonly (readonly string[])[] = [["-L"], ["topo", "-m"], ["-q", "-x"]];

/**
 * Limit of one call, ms. Eight cards without persistence take up to 3 s each for the first client (ECC scrub); a reset by another process
 * blocks for some seconds. Beyond that the driver hangs.
 */
export const NVIDIA_SMI_TIMEOUT_MS = 20_000;
