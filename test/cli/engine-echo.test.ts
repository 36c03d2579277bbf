import { describe, expect, test } from "bun:test";
import { createEchoServer, type EchoOptions, type EchoServer } from "../../src/cli/engine/echo-server.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { temporaryFolder } from "../support/folders.ts";
import { type Child, startLlmgw, until } from "../support/processes.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";

function engine(more: Partial<EchoOptions> = {}): EchoServer {
  const server = createEchoServer({
    models: ["echo", "alias"],
    clock: systemClock,
    tokenMs: 0,
    contextLength: 4096,
    slots: 2,
    apiKey: undefined,
    refuse: false,
    crashAfter: undefined,
    hangAfter: undefined,
    crash: () => undefined,
    ...more,
  });
  server.loaded();
  return server;
}

const post = (path: string, body: unknown, init: RequestInit = {}): Request =>
  new Request(`http://127.0.0.1${path}`, { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body), ...init });
const get = (path: string): Request => new Request(`http://127.0.0.1${path}`);
const CHAT = "/v1/chat/completions";
const say = (content: string, more: object = {}) => ({ model: "echo", messages: [{ role: "user", content }], ...more });

async function events(response: Response): Promise<readonly unknown[]> {
  const text = await response.text();
  return text
    .split("\n\n")
    .flatMap((block) => /^(?:event: .*\n)?data: (.*)$/.exec(block)?.[1] ?? [])
    .map((data) => (data === "[DONE]" ? data : JSON.parse(data)));
}

describe("the echo engine", () => {
  test("repeats what the user said, with usage", async () => {
    const response = await engine().fetch(post(CHAT, say("hello there")));
    expect(await response.json()).toMatchObject({
      object: "chat.completion",
      model: "echo",
      choices: [{ message: { role: "assistant", content: "hello there" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 },
    });
  });

  test("streams role, tokens, end, usage and [DONE]", async () => {
    const stream = { stream: true, stream_options: { include_usage: true } };
    const got = await events(await engine().fetch(post(CHAT, say("a b c", stream))));
    const deltas = got.map((event) => (typeof event === "object" ? Object(event).choices[0]?.delta?.content : event));
    expect(deltas).toEqual(["", "a", " b", " c", undefined, undefined, "[DONE]"]);
    expect(got.at(-2)).toMatchObject({ choices: [], usage: { completion_tokens: 3 } });
  });

  test("completes, responds and embeds, whole and streamed", async () => {
    const server = engine();
    expect(await (await server.fetch(post("/v1/completions", { prompt: "x y", max_tokens: 1 }))).json()).toMatchObject({
      choices: [{ text: "x", finish_reason: "length" }],
    });
    expect((await events(await server.fetch(post("/v1/completions", { prompt: "x y", stream: true })))).at(-1)).toBe("[DONE]");
    expect(await (await server.fetch(post("/v1/responses", { input: "hi" }))).json()).toMatchObject({
      status: "completed",
      output: [{ content: [{ type: "output_text", text: "hi" }] }],
    });
    expect((await events(await server.fetch(post("/v1/responses", { input: "hi", stream: true })))).at(-1)).toMatchObject({
      type: "response.completed",
    });
    const embedded = (await (await server.fetch(post("/v1/embeddings", { input: ["a", "b"], dimensions: 8 }))).json()) as {
      data: { embedding: number[] }[];
    };
    expect(embedded.data.map((one) => one.embedding.length)).toEqual([8, 8]);
  });

  test("answers 503 while it loads, and knows its names", async () => {
    const loading = createEchoServer({ ...OPTIONS, models: ["m"] });
    expect((await loading.fetch(get("/health"))).status).toBe(503);
    expect((await loading.fetch(post(CHAT, say("x")))).status).toBe(503);
    loading.loaded();
    expect((await loading.fetch(get("/health"))).status).toBe(200);
    expect(await (await loading.fetch(get("/v1/models"))).json()).toMatchObject({ data: [{ id: "m", max_model_len: 4096 }] });
    expect((await engine().fetch(post(CHAT, say("x", { model: "alias" })))).status).toBe(200);
    expect((await engine().fetch(post(CHAT, say("x", { model: "other" })))).status).toBe(404);
  });

  test("refuses what does not fit, what it was told to refuse, and who has no key", async () => {
    expect((await engine().fetch(post(CHAT, "{"))).status).toBe(400);
    expect((await engine().fetch(post(CHAT, { messages: [] }))).status).toBe(400);
    expect((await engine().fetch(get("/v1/nothing"))).status).toBe(404);
    expect((await engine({ refuse: true }).fetch(post(CHAT, say("x")))).status).toBe(503);
    const locked = engine({ apiKey: "k" });
    expect((await locked.fetch(post(CHAT, say("x")))).status).toBe(401);
    expect((await locked.fetch(get("/health"))).status).toBe(200);
    expect((await locked.fetch(post(CHAT, say("x"), { headers: { authorization: "Bearer k" } }))).status).toBe(200);
  });

  test("counts what runs, waits and was said, and lets go of who leaves", async () => {
    const clock = createVirtualClock();
    const server = engine({ clock, tokenMs: 100, slots: 1 });
    const leave = new AbortController();
    const figures = async (): Promise<string> => (await server.fetch(get("/metrics"))).text();
    const figuresOf = (): string => "see the figures";
    const running = await server.fetch(post(CHAT, say("one two three", { stream: true }), { signal: leave.signal }));
    const waiting = server.fetch(post(CHAT, say("next")));
    // Bodies are read in real turns of the event loop, whatever the clock says.
    await until(async () => (await figures()).includes('vllm:num_requests_waiting{model_name="echo"} 1\n'), figuresOf);
    expect(await figures()).toContain('vllm:num_requests_running{model_name="echo"} 1\n');
    leave.abort();
    await clock.advance(0);
    await running.text().catch(() => undefined);
    let answered = 0;
    void waiting.then(({ status }) => {
      answered = status;
    });
    await until(async () => {
      await clock.advance(100);
      return answered === 200;
    }, figuresOf);
    expect(await figures()).toContain('vllm:request_aborted_total{model_name="echo"} 1\n');
    expect(await figures()).toContain('vllm:num_requests_running{model_name="echo"} 0\n');
  });

  test("crashes in the middle of the answer after those that it was told to give", async () => {
    let crashed = 0;
    const server = engine({ crashAfter: 1, crash: () => crashed++ });
    await server.fetch(post(CHAT, say("first")));
    expect(crashed).toBe(0);
    await server.fetch(post(CHAT, say("second")));
    expect(crashed).toBeGreaterThan(0);
  });

  test("hangs after those that it was told to give, while its health says that all is well", async () => {
    const server = engine({ hangAfter: 1 });
    await server.fetch(post(CHAT, say("first")));
    const leave = new AbortController();
    const hanging = server.fetch(post(CHAT, say("second"), { signal: leave.signal })).catch(() => "left");
    await until(
      () => server.running() === 1,
      () => "it does not run",
    );
    expect((await server.fetch(get("/health"))).status).toBe(200);
    leave.abort();
    expect(await hanging).toBe("left");
    expect(server.running()).toBe(0);
  });
});

const OPTIONS: EchoOptions = {
  models: ["echo"],
  clock: systemClock,
  tokenMs: 0,
  contextLength: 4096,
  slots: 2,
  apiKey: undefined,
  refuse: false,
  crashAfter: undefined,
  hangAfter: undefined,
  crash: () => undefined,
};

describe("llmgw engine echo, as a process", () => {
  const urlOf = (child: Child): Promise<string> =>
    until(
      () => /url=(\S+)/.exec(child.output())?.[1],
      () => child.output(),
    );

  test("loads, answers, finishes what runs when it is told to stop, and ends with 0", async () => {
    using folder = temporaryFolder();
    const child = startLlmgw(folder.path, ["engine", "echo", "--model", "chat", "--tokens-per-s", "50"]);
    const url = await urlOf(child);
    await until(
      async () => (await fetch(`${url}/health`)).ok,
      () => child.output(),
    );
    const response = await fetch(`${url}${CHAT}`, {
      method: "POST",
      body: JSON.stringify({ ...say("a b c d e", { stream: true }), model: "chat" }),
    });
    const ended = child.end("SIGTERM");
    expect((await events(response)).at(-1)).toBe("[DONE]");
    expect(await ended).toBe(0);
  });

  test.each([
    ["--out-of-memory", "torch.OutOfMemoryError: CUDA out of memory"],
    ["--lost-gpu", "the GPU is lost"],
  ])("%s ends with 1 and the words of an engine", async (flag, words) => {
    using folder = temporaryFolder();
    const child = startLlmgw(folder.path, ["engine", "echo", flag]);
    expect(await child.exited).toBe(1);
    expect(child.output()).toContain(words);
  });

  test("a crash is a death by SIGKILL, in the middle of a stream", async () => {
    using folder = temporaryFolder();
    const child = startLlmgw(folder.path, ["engine", "echo", "--crash-after", "0"]);
    const url = await urlOf(child);
    await until(
      async () => (await fetch(`${url}/health`)).ok,
      () => child.output(),
    );
    await fetch(`${url}${CHAT}`, { method: "POST", body: JSON.stringify(say("a b c", { stream: true })) })
      .then((response) => response.text())
      .catch(() => undefined);
    expect(await child.exited).toBe(137);
  });

  test("a port that is taken, and flags that make no sense, are said", async () => {
    using folder = temporaryFolder();
    const first = startLlmgw(folder.path, ["engine", "echo"]);
    const { port } = new URL(await urlOf(first));
    const second = startLlmgw(folder.path, ["engine", "echo", "--port", port]);
    expect([await second.exited, second.output()]).toEqual([1, expect.stringContaining("address already in use")]);
    const wrong = startLlmgw(folder.path, ["engine", "echo", "--tokens-per-s", "fast"]);
    expect([await wrong.exited, wrong.output()]).toEqual([2, expect.stringContaining("--tokens-per-s fast cannot be used")]);
    await first.end();
  });
});
