/** Where each program keeps what must survive, unless told otherwise. Pure. */

import { UserError } from "../lib/user-error.ts";

export type Role = "agent" | "server" | "up";

export interface WhoRuns {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether the program runs as root: system folders then, the user's own else. */
  readonly root: boolean;
}

/**
 * `/var/lib/llmgw/ROLE` for root (LLMGW_SYSTEM_STATE names another folder than the first), else `$XDG_STATE_HOME/llmgw/ROLE`, by default in `~/.local/state` (XDG Base Directory Specification
 * 0.8). `undefined` when there is neither that variable nor a home.
 */
export function defaultStateDir(role: Role, who: WhoRuns): string | undefined {
  const base = stateBase(who);
  return base === undefined ? undefined : `${base}/${role}`;
}

/** The agent of a recorded machine has a folder of its own: it must not meet the real node's credential. */
export function machineStateDir(machine: string, who: WhoRuns): string | undefined {
  const base = stateBase(who);
  return base === undefined ? undefined : `${base}/machines/${machine}/agent`;
}

export function noStateDir(): UserError {
  return new UserError({
    what: "there is no state folder",
    why: "this user has no home, and neither --state nor state_dir names one",
    fix: "give one with --state DIR",
  });
}

function stateBase({ env, root }: WhoRuns): string | undefined {
  if (root) return absolute(env.LLMGW_SYSTEM_STATE) ?? "/var/lib/llmgw";
  const state = absolute(env.XDG_STATE_HOME) ?? (absolute(env.HOME) === undefined ? undefined : `${env.HOME}/.local/state`);
  return state === undefined ? undefined : `${state}/llmgw`;
}

/** Relative paths in these variables are to be ignored, says the specification. */
function absolute(path: string | undefined): string | undefined {
  return path?.startsWith("/") === true ? path.replace(/\/+$/, "") : undefined;
}
