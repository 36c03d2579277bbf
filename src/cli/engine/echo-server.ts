/** The process around the echo engine: loads for a while, answers at a pace, and fails on request. */
import * as v from "valibot";
import {
  chatAnswer,
  chatChunk,
  completionAnswer,
  completionChunk,
  type Echo,
  echoOf,
  embeddingAnswer,
  errorAnswer,
  modelsAnswer,
  responsesAnswer,
  responsesEvents,
} from "../../engines/echo/answers.ts";
import { echoMetrics } from "../../engines/echo/metrics.ts";
import { ChatRequest, CompletionRequest, EmbeddingRequest, lastSaid, ResponsesRequest, textOf } from "../../engines/echo/requests.ts";
import { type Clock, pause } from "../../lib/clock.ts";

export interface EchoOptions {
  /** Served names, the first is what answers say. */
  readonly models: readonly string[];
  readonly clock: Clock;
  /** Between two tokens, ms; 0: as fast as it goes. */
  readonly tokenMs: number;
  readonly contextLength: number;
  /** Answers at once; more wait. */
  readonly slots: number;
  /** Asked for as `Authorization: Bearer` below /v1; `undefined`: nobody is asked. */
  readonly apiKey: string | undefined;
  readonly refuse: boolean;
  /** Requests that are answered; the next one ends the process, in the middle of its answer. */
  readonly crashAfter: number | undefined;
  /** Likewise; the next one, and all after it, hang. `/health` goes on to say that all is well. */
  readonly hangAfter: number | undefined;
  readonly crash: () => void;
}

export interface EchoServer {
  /** From now on `/health` says that the model is loaded, and requests are answered. */
  loaded(): void;
  readonly fetch: (request: Request) => Promise<Response>;
  /** Answers that are under way. */
  running(): number;
}

export function createEchoServer(options: EchoOptions): EchoServer {
  return new Engine(options);
}

interface Run {
  readonly echo: Echo;
  /** The how manieth request this is. */
  readonly number: number;
}

class Engine implements EchoServer {
  private readonly options: EchoOptions;
  private readonly createdS: number;
  private ready = false;
  private taken = 0;
  private active = 0;
  private readonly queue: (() => void)[] = [];
  private readonly counts = { promptTokens: 0, generatedTokens: 0, aborted: 0 };

  constructor(options: EchoOptions) {
    this.options = options;
    this.createdS = Math.floor(options.clock.nowMs() / 1000);
  }

  loaded(): void {
    this.ready = true;
  }

  running(): number {
    return this.active;
  }

  readonly fetch = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    if (pathname === "/metrics") return this.metrics();
    if (!this.ready) return failure(503, "Loading model", "unavailable_error");
    if (pathname === "/health" || pathname === "/ping") return new Response("");
    if (pathname.startsWith("/v1/") && !this.allowed(request)) return failure(401, "the key does not count", "invalid_request_error");
    if (pathname === "/v1/models") return Response.json(modelsAnswer(this.options.models, this.createdS, this.options.contextLength));
    if (request.method !== "POST") return failure(404, `there is nothing at ${pathname}`, "not_found_error");
    return this.post(pathname, request);
  };

  private metrics(): Response {
    const { slots, models } = this.options;
    const figures = { ...this.counts, running: this.active, waiting: this.queue.length, slots };
    return new Response(echoMetrics(models[0] ?? "", figures), { headers: { "content-type": "text/plain; version=0.0.4" } });
  }

  private allowed(request: Request): boolean {
    const { apiKey } = this.options;
    return apiKey === undefined || request.headers.get("authorization") === `Bearer ${apiKey}`;
  }

  private async post(pathname: string, request: Request): Promise<Response> {
    if (this.options.refuse) return failure(503, "this engine refuses every request, as it was told to", "unavailable_error");
    const body = await request.json().catch(() => undefined);
    switch (pathname) {
      case "/v1/chat/completions":
        return this.take(ChatRequest, body, (chat) => this.chat(chat, request.signal));
      case "/v1/completions":
        return this.take(CompletionRequest, body, (completion) => this.completion(completion, request.signal));
      case "/v1/responses":
        return this.take(ResponsesRequest, body, (responses) => this.responses(responses, request.signal));
      case "/v1/embeddings":
        return this.take(EmbeddingRequest, body, async ({ input, dimensions }) =>
          Response.json(embeddingAnswer(this.options.models[0] ?? "", [input].flat(), dimensions ?? undefined)),
        );
      default:
        return failure(404, `there is nothing at ${pathname}`, "not_found_error");
    }
  }

  private async take<T extends { readonly model?: string | undefined }>(
    schema: v.GenericSchema<unknown, T>,
    body: unknown,
    answer: (request: T) => Promise<Response>,
  ): Promise<Response> {
    const checked = v.safeParse(schema, body);
    if (!checked.success) {
      const issue = checked.issues[0];
      return failure(400, `${v.getDotPath(issue) ?? "body"}: ${issue.message}`, "invalid_request_error");
    }
    const { model } = checked.output;
    if (model !== undefined && !this.options.models.includes(model)) {
      return failure(404, `The model \`${model}\` does not exist.`, "not_found_error");
    }
    return answer(checked.output);
  }

  private start(kind: string, prompt: string, said: string, maxTokens: number | null | undefined): Run {
    const number = ++this.taken;
    const id = `${kind}${this.createdS.toString(16)}${number.toString(16).padStart(6, "0")}`;
    const given = { id, created: Math.floor(this.options.clock.nowMs() / 1000), model: this.options.models[0] ?? "" };
    const echo = echoOf(given, prompt, said, maxTokens ?? undefined);
    this.counts.promptTokens += echo.promptTokens;
    return { echo, number };
  }

  private chat(request: ChatRequest, signal: AbortSignal): Promise<Response> {
    const prompt = request.messages.map((message) => textOf(message.content)).join("\n");
    const run = this.start("chatcmpl-", prompt, lastSaid(request.messages), request.max_completion_tokens ?? request.max_tokens);
    const { echo } = run;
    if (request.stream !== true) return this.whole(run, signal, () => chatAnswer(echo));
    const tail = request.stream_options?.include_usage === true ? [chatChunk(echo, "usage")] : [];
    return this.stream(run, signal, {
      before: [chatChunk(echo, "role")],
      token: (token) => chatChunk(echo, { token }),
      after: [chatChunk(echo, "finish"), ...tail],
    });
  }

  private completion(request: CompletionRequest, signal: AbortSignal): Promise<Response> {
    const prompt = [request.prompt].flat().join("\n");
    const run = this.start("cmpl-", prompt, prompt, request.max_tokens);
    const { echo } = run;
    if (request.stream !== true) return this.whole(run, signal, () => completionAnswer(echo));
    const tail = request.stream_options?.include_usage === true ? [completionChunk(echo, "usage")] : [];
    return this.stream(run, signal, {
      before: [],
      token: (token) => completionChunk(echo, { token }),
      after: [completionChunk(echo, "finish"), ...tail],
    });
  }

  private responses(request: ResponsesRequest, signal: AbortSignal): Promise<Response> {
    const said = typeof request.input === "string" ? request.input : lastSaid(request.input);
    const run = this.start("resp_", said, said, request.max_output_tokens);
    const { echo } = run;
    if (request.stream !== true) return this.whole(run, signal, () => responsesAnswer(echo));
    const events = responsesEvents(echo);
    const text = (event: (typeof events)[number]): string => `event: ${event.data.type}\ndata: ${JSON.stringify(event.data)}\n\n`;
    return this.send(run, signal, async (write, tick) => {
      for (const event of events) {
        if (event.token) await tick();
        write(text(event));
      }
    });
  }

  /** Waits for a slot, then for as long as the tokens take. */
  private async whole({ echo, number }: Run, signal: AbortSignal, answer: () => unknown): Promise<Response> {
    await this.enter(signal);
    try {
      const tick = this.pace(number, signal);
      for (let at = 0; at < echo.tokens.length; at++) await tick();
      return Response.json(answer());
    } finally {
      this.leave(signal);
    }
  }

  private stream(
    run: Run,
    signal: AbortSignal,
    parts: { readonly before: readonly unknown[]; readonly token: (token: string) => unknown; readonly after: readonly unknown[] },
  ): Promise<Response> {
    const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
    return this.send(run, signal, async (write, tick) => {
      for (const part of parts.before) write(event(part));
      for (const token of run.echo.tokens) {
        await tick();
        write(event(parts.token(token)));
      }
      for (const part of parts.after) write(event(part));
      write("data: [DONE]\n\n");
    });
  }

  private async send(
    { number }: Run,
    signal: AbortSignal,
    talk: (write: (text: string) => void, tick: () => Promise<void>) => Promise<void>,
  ): Promise<Response> {
    await this.enter(signal);
    const encoder = new TextEncoder();
    const gone = new AbortController();
    const either = AbortSignal.any([signal, gone.signal]);
    const body = new ReadableStream<Uint8Array>({
      start: async (controller) => {
        try {
          await talk((text) => controller.enqueue(encoder.encode(text)), this.pace(number, either));
          controller.close();
        } catch (error) {
          // The client left: the rest has no reader. A stream that was cancelled takes no error any more.
          if (!gone.signal.aborted) controller.error(error);
        } finally {
          this.leave(either);
        }
      },
      cancel: () => gone.abort(),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" } });
  }

  /** One call for each token. Throws when the client has left. */
  private pace(number: number, signal: AbortSignal): () => Promise<void> {
    const { clock, tokenMs, crashAfter, hangAfter, crash } = this.options;
    return async () => {
      if (crashAfter !== undefined && number > crashAfter) crash();
      if (hangAfter !== undefined && number > hangAfter)
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      if (tokenMs > 0) await pause(clock, tokenMs, signal);
      signal.throwIfAborted();
      this.counts.generatedTokens++;
    };
  }

  /** Throws when the client leaves while it waits. */
  private async enter(signal: AbortSignal): Promise<void> {
    if (this.active >= this.options.slots) {
      await new Promise<void>((resolve, reject) => {
        const turn = (): void => {
          signal.removeEventListener("abort", leave);
          resolve();
        };
        const leave = (): void => {
          this.queue.splice(this.queue.indexOf(turn), 1);
          this.counts.aborted++;
          reject(new Error("the client left"));
        };
        this.queue.push(turn);
        signal.addEventListener("abort", leave, { once: true });
      });
    }
    this.active++;
  }

  private leave(signal: AbortSignal): void {
    this.active--;
    if (signal.aborted) this.counts.aborted++;
    this.queue.shift()?.();
  }
}

function failure(status: number, message: string, type: string): Response {
  return Response.json(errorAnswer(message, type, status), { status });
}
