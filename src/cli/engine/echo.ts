/** `llmgw engine echo`: a small OpenAI-compatible engine that repeats what it is told. A probe for the whole path, no model. */
import { systemClock } from "../../lib/clock.ts";
import { messageOf, UserError } from "../../lib/user-error.ts";
import { defineCommand, usageError } from "../command.ts";
import type { Context } from "../context.ts";
import { untilStopped } from "../long-running.ts";
import { createEchoServer } from "./echo-server.ts";

export const echo = defineCommand({
  name: "echo",
  summary: "a probe that speaks the OpenAI API and repeats what it is told; no model",
  description:
    "For tests and the first run. It loads nothing and understands nothing; the flags make it behave as engines do when they fail.",
  flags: {
    host: { kind: "string", hint: "ADDRESS", summary: "where to listen; default 127.0.0.1" },
    port: { kind: "string", hint: "PORT", summary: "0, or none: any free one" },
    model: { kind: "string", multiple: true, hint: "NAME", summary: "served name; the first is what answers say; default echo" },
    "context-length": { kind: "string", hint: "TOKENS", summary: "what /v1/models says of it; default 8192" },
    slots: { kind: "string", hint: "N", summary: "answers at once, more wait; default 16" },
    "load-s": { kind: "string", hint: "SECONDS", summary: "time until it is loaded; requests get 503 meanwhile" },
    "tokens-per-s": { kind: "string", hint: "RATE", summary: "pace of one answer; as fast as it goes unless given" },
    "crash-after": { kind: "string", hint: "N", summary: "the process ends in the middle of the answer after N" },
    "hang-after": { kind: "string", hint: "N", summary: "answers after N never come, while /health says that all is well" },
    refuse: { kind: "boolean", summary: "every request is refused with 503" },
    "out-of-memory": { kind: "boolean", summary: "ends while loading, with the words of an engine whose card is full" },
    "lost-gpu": { kind: "boolean", summary: "ends after loading, with the words of an engine whose card is gone" },
    "wrong-name": { kind: "boolean", summary: "serves another name than it was told" },
    json: { kind: "boolean", summary: "print where it listened as data when it ends" },
  },
  examples: ["llmgw engine echo --port 8000 --model chat", "llmgw engine echo --load-s 10 --tokens-per-s 50 --crash-after 3"],
  run: async (ctx, args) => {
    const models = args.model ?? ["echo"];
    const rate = numberOf("tokens-per-s", args["tokens-per-s"], { above: 0 });
    const served = args["wrong-name"] === true ? models.map((name) => `not-${name}`) : models;
    const engine = createEchoServer({
      models: served,
      clock: systemClock,
      tokenMs: rate === undefined ? 0 : 1000 / rate,
      contextLength: countOf("context-length", args["context-length"]) ?? 8192,
      slots: countOf("slots", args.slots) ?? 16,
      // As every engine is given it: in the environment, where no list of processes shows it.
      apiKey: nonEmpty(ctx.env.LLMGW_ENGINE_KEY),
      refuse: args.refuse === true,
      crashAfter: countOf("crash-after", args["crash-after"], 0),
      hangAfter: countOf("hang-after", args["hang-after"], 0),
      crash: () => process.kill(process.pid, "SIGKILL"),
    });
    const server = listen(args.host ?? "127.0.0.1", countOf("port", args.port, 0) ?? 0, engine.fetch);
    ctx.log.info("echo engine listens; it is a probe, no model", { url: server.url.origin, model: served[0] });
    const failed = await load(ctx, args);
    if (failed === undefined) {
      engine.loaded();
      ctx.log.info("application startup complete");
      await untilStopped(ctx);
    }
    // Requests that run are finished, as engines do when they are told to stop.
    await server.stop(failed !== undefined);
    const data = { engine: { url: server.url.origin, models: served } };
    return failed === undefined ? { data, text: "" } : { data, text: "", exitCode: 1 };
  },
});

function listen(hostname: string, port: number, fetch: (request: Request) => Promise<Response>) {
  try {
    return Bun.serve({ hostname, port, idleTimeout: 0, fetch });
  } catch (cause) {
    const why = messageOf(cause);
    // The words that engines use, which whoever starts one looks for.
    const what = `the echo engine cannot listen at ${hostname}:${port}: address already in use`;
    throw new UserError({ what, why, fix: "give another --port" }, { cause, exitCode: 1 });
  }
}

/** The last words of an engine that does not come up; `undefined` when it does. */
async function load(
  ctx: Context,
  args: { readonly "load-s": string | undefined; readonly "out-of-memory": boolean | undefined; readonly "lost-gpu": boolean | undefined },
): Promise<string | undefined> {
  const loadMs = (numberOf("load-s", args["load-s"], { above: -1 }) ?? 0) * 1000;
  const stopped = untilStopped(ctx).then(() => "stopped" as const);
  const waited = new Promise<"loaded">((resolve) => setTimeout(resolve, loadMs, "loaded"));
  if ((await Promise.race([stopped, waited])) === "stopped") return "stopped";
  const words =
    args["out-of-memory"] === true
      ? "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."
      : args["lost-gpu"] === true
        ? "CUDA error: unspecified launch failure: the GPU is lost. Reboot the system to recover this GPU"
        : undefined;
  if (words !== undefined) ctx.say(words);
  return words;
}

function numberOf(flag: string, given: string | undefined, { above }: { readonly above: number }): number | undefined {
  if (given === undefined) return undefined;
  const number = /^\d+(?:\.\d+)?$/.test(given) ? Number(given) : Number.NaN;
  if (number > above) return number;
  throw usageError(`--${flag} ${given} cannot be used`, "it takes a number", `leave --${flag} out for the default`);
}

function countOf(flag: string, given: string | undefined, least = 1): number | undefined {
  const number = numberOf(flag, given, { above: least - 1 });
  if (number === undefined || Number.isInteger(number)) return number;
  throw usageError(`--${flag} ${given} cannot be used`, "it takes a whole number", `leave --${flag} out for the default`);
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
