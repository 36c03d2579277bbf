/** `llmgw nvml-probe`: where NVIDIA's library is loaded. Hidden: inventory and agent start it, since a library that hangs takes its process along. */
import { readNvml } from "../platform/nvml-ffi.ts";
import { serveNvml } from "../platform/nvml-serve.ts";
import { defineCommand } from "./command.ts";

export const nvmlProbe = defineCommand({
  name: "nvml-probe",
  summary: "one look through the NVML library, as JSON",
  description: "Prints one answer. With --serve, one per line that arrives, until the input ends.",
  flags: {
    library: { kind: "string", hint: "PATH", summary: "load this library instead of the one at the usual places; an absolute path" },
    serve: { kind: "boolean", summary: "answer one line for each line of input" },
  },
  run: async (ctx, args) => {
    if (args.serve === true) {
      await serveNvml({ library: args.library, signal: ctx.signal });
      return { data: undefined, text: "" };
    }
    const reply = readNvml(args.library);
    return { data: reply, text: JSON.stringify(reply) };
  },
});
