/** What this machine is called, and where others reach it. */
import { hostname, networkInterfaces } from "node:os";

export function hostName(): string {
  return hostname();
}

/** IPv4 addresses that others may use, in the kernel's order: no loopback, no link-local one. */
export function addressesOf(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).filter((one) => one.family === "IPv4" && !one.internal && !one.address.startsWith("169.254.")).map((one) => one.address),
  );
}
