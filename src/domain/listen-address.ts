/** Where a program listens, as people write it. */
import * as v from "valibot";

export const ListenAddress = v.pipe(
  v.string(),
  v.regex(/^(?:\[[0-9a-f:.]+\]|[a-z0-9.-]+):\d{1,5}$/i, "ADDRESS:PORT, such as 0.0.0.0:8400 or [::]:8400"),
);

/** Whether nobody but this machine reaches it. An IPv6 address may be in brackets, as in a URL. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
