import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import * as v from "valibot";
import { discoverImex, parseImexNodes } from "../../src/discovery/imex.ts";
import { Imex } from "../../src/domain/inventory.ts";
import { temporaryFolder } from "../support/folders.ts";
import { damaged, type TreeOptions, treeRunner } from "../support/tree-runner.ts";

/** In the tool's form, with values of our own. */
const DEGRADED = `Connectivity Table Legend:
I - Invalid - Node wasn't reachable, no connection status available
N - Never Connected
C - Connected - Ready for operation

1/02/2026 01:02:03.004
Nodes:
Node #0   - 10.0.0.1        - READY                - Version: 570.172
Node #1   - fd00::2         - UNAVAILABLE

 Nodes From\\To  0   1   2
       0        C   N   !V!
       1        I   I   I
       2        !M! R   Q

Domain State: DEGRADED
`;

async function discover(commands: TreeOptions["commands"]) {
  using folder = temporaryFolder();
  return await discoverImex(treeRunner(folder.path, {}, commands === undefined ? {} : { commands }));
}

test("nodes, the domain's state and the pairs that are not connected are read, both halves of the matrix", () => {
  expect(parseImexNodes(DEGRADED)).toEqual({
    domain_state: "degraded",
    nodes: [
      { index: 0, address: "10.0.0.1", status: "ready", version: "570.172" },
      { index: 1, address: "fd00::2", status: "unavailable" },
    ],
    disconnected: [
      { from: 0, to: 1, state: "never_connected" },
      { from: 0, to: 2, state: "version_mismatch" },
      { from: 1, to: 0, state: "invalid" },
      { from: 1, to: 2, state: "invalid" },
      { from: 2, to: 0, state: "node_map_mismatch" },
      { from: 2, to: 1, state: "recovering" },
    ],
  });
});

test("where all are connected, no pairs are listed", () => {
  const text = "Node #0 - 10.0.0.1 - READY\nNode #1 - 10.0.0.2 - READY\n\n Nodes From\\To  0  1\n  0  C  C\n  1  C  C\nDomain State: UP\n";
  const imex = parseImexNodes(text);
  expect(imex?.domain_state).toBe("up");
  expect(imex).not.toHaveProperty("disconnected");
});

test("a node without the program has nothing to tell", async () => {
  expect(await discover({})).toEqual({});
});

test("a daemon that is not configured, says nothing or does not answer is a problem in its own words", async () => {
  const command = "nvidia-imex-ctl -N";
  expect(await discover({ [command]: { exitCode: 1, stdout: "\nFailed to read node configuration file\nmore\n" } })).toEqual({
    problem: "Failed to read node configuration file",
  });
  expect(await discover({ [command]: { exitCode: 2, stderr: "connect: refused\n" } })).toEqual({ problem: "connect: refused" });
  expect(await discover({ [command]: { exitCode: 3 } })).toEqual({ problem: "no output, exit code 3" });
  expect(await discover({ [command]: "timeout" })).toEqual({ problem: "nvidia-imex-ctl -N: timeout" });
});

test("a caller that gives up is not told of a problem", async () => {
  expect(discover({ "nvidia-imex-ctl -N": "aborted" })).rejects.toThrow("aborted");
});

test("no damage to the text makes the parser throw or tell what the schema does not hold", () => {
  const bytes = new TextEncoder().encode(DEGRADED);
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(255), (keep, at, xor) => {
      const imex = parseImexNodes(new TextDecoder().decode(damaged(bytes, { keep, at, xor })));
      if (imex !== undefined) expect(v.is(Imex, imex)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

const recorded = join(import.meta.dir, "../../../shared/recorded");

interface RecordedImex {
  readonly nodes: readonly { readonly id: number; readonly address: string; readonly status: string; readonly version: string | null }[];
  readonly connectivity: { readonly allConnected: boolean };
  readonly domainState: string;
}

describe("recorded outputs", () => {
  const smi = existsSync(recorded) ? readdirSync(join(recorded, "nvidia-smi")).filter((name) => name.startsWith("imex-")) : [];
  const tools = existsSync(recorded) ? readdirSync(join(recorded, "ib-tools")).filter((name) => name.startsWith("imex-")) : [];

  test.skipIf(smi.length === 0)("every recorded imex case is read as a careful person reads it", () => {
    for (const name of smi) {
      const folder = join(recorded, "nvidia-smi", name);
      const { expect: expected }: { readonly expect: { readonly imex: RecordedImex } } = JSON.parse(
        readFileSync(join(folder, "case.json"), "utf8"),
      );
      const imex = parseImexNodes(readFileSync(join(folder, "imex-ctl-N.txt"), "utf8"));
      expect(imex?.domain_state).toBe(expected.imex.domainState.toLowerCase());
      expect(imex?.nodes).toEqual(
        expected.imex.nodes.map(({ id, address, status, version }) => ({
          index: id,
          address,
          status: status.toLowerCase(),
          ...(version === null ? {} : { version }),
        })),
      );
      expect(imex?.disconnected === undefined).toBe(expected.imex.connectivity.allConnected);
    }
  });

  test.skipIf(tools.length === 0)("every composed imex case is read, or is not configured", () => {
    for (const name of tools) {
      const file = join(recorded, "ib-tools", name, "ctl-N.txt");
      if (!existsSync(file)) continue;
      const imex = parseImexNodes(readFileSync(file, "utf8"));
      const state = name === "imex-not-configured" ? undefined : name === "imex-domain-up" ? "up" : "degraded";
      expect(imex?.domain_state).toBe(state);
      expect(imex?.disconnected === undefined).toBe(state !== "degraded");
    }
  });
});
