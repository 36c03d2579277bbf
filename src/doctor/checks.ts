/** All checks, in the order in which a report shows them. */
import type { Check } from "./check.ts";
import { controlPlaneChecks } from "./control-plane-checks.ts";
import { driverChecks } from "./driver-checks.ts";
import { engineChecks } from "./engine-checks.ts";
import { fabricChecks } from "./fabric-checks.ts";
import { gpuChecks } from "./gpu-checks.ts";
import { hostChecks } from "./host-checks.ts";
import { migChecks } from "./mig-checks.ts";
import { nvlinkChecks } from "./nvlink-checks.ts";
import { storageChecks } from "./storage-checks.ts";

export const CHECKS: readonly Check[] = [
  ...driverChecks,
  ...gpuChecks,
  ...migChecks,
  ...nvlinkChecks,
  ...fabricChecks,
  ...hostChecks,
  ...engineChecks,
  ...controlPlaneChecks,
  ...storageChecks,
];
