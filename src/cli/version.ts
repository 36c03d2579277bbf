/** Version and commit, put in by build.ts. From sources: the version of package.json, commit "dev". */
import packageJson from "../../package.json" with { type: "json" };

declare const LLMGW_VERSION: string | undefined;
declare const LLMGW_COMMIT: string | undefined;

export const VERSION = typeof LLMGW_VERSION === "string" ? LLMGW_VERSION : packageJson.version;

export function versionLine(): string {
  const commit = typeof LLMGW_COMMIT === "string" ? LLMGW_COMMIT : "dev";
  return `llmgw ${VERSION} (${commit})`;
}
