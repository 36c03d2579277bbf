/** Where the processes of one node agree on who asks the driver (see round-lock.ts). */
import type { RoundLockOptions } from "./round-lock.ts";

/** `LLMGW_RUNTIME_DIR` replaces the usual folders, for a service with a runtime folder of its own and for tests. */
export function hostRoundLock(env: Readonly<Record<string, string | undefined>>): RoundLockOptions {
  const own = env.LLMGW_RUNTIME_DIR;
  if (own !== undefined && own !== "") return { folders: [own] };
  return { folders: ["/run/llmgw", `/tmp/llmgw-${process.getuid?.() ?? 0}`], othersIn: "/tmp" };
}
