/** A runner over a description: what its tools print and what NVML tells, without a folder. Files are absent. */
import type { NodeDescription } from "../../fakes/compose/description.ts";
import { renderList } from "../../fakes/compose/render-list.ts";
import { renderNvml } from "../../fakes/compose/render-nvml.ts";
import { renderQuery } from "../../fakes/compose/render-query.ts";
import { renderTopology } from "../../fakes/compose/render-topology.ts";
import type { NvmlSnapshot } from "../../src/platform/nvml-snapshot.ts";
import { type Runner, RunnerError } from "../../src/platform/runner.ts";

export interface ComposedOptions {
  /** In place of what the description says; an error is thrown. */
  readonly nvml?: ((snapshot: NvmlSnapshot) => NvmlSnapshot | undefined) | RunnerError;
  /** Told of each command. */
  readonly onExec?: (argv: readonly string[]) => void;
}

export function composedRunner(node: NodeDescription, options: ComposedOptions = {}): Runner {
  const { driver } = node;
  if (driver === undefined) throw new Error("a node without a driver has nothing to compare");
  const answers: Readonly<Record<string, () => string>> = {
    "nvidia-smi -L": () => renderList(node.cards),
    "nvidia-smi -q -x": () => renderQuery(node, driver),
    "nvidia-smi topo -m": () => renderTopology(node),
  };
  const nothing = async (): Promise<undefined> => undefined;
  return {
    label: "a composed machine",
    kind: "host",
    home: "/root",
    exec: async (argv) => {
      options.onExec?.(argv);
      const answer = answers[argv.join(" ")];
      return answer === undefined ? undefined : { exitCode: 0, stdout: answer(), stderr: "", truncated: false };
    },
    readFile: nothing,
    listDir: nothing,
    readLink: nothing,
    realPath: nothing,
    stat: nothing,
    diskSpace: nothing,
    nvml: async () => {
      if (options.nvml instanceof RunnerError) throw options.nvml;
      const snapshot = renderNvml(node, driver);
      return options.nvml === undefined ? snapshot : options.nvml(snapshot);
    },
    now: () => new Date(0),
  };
}
