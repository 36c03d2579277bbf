/** What the echo engine says: the text it was told, word by word, in the shapes of OpenAI's API. Pure: ids and times are handed in. */

/** One answer under way. */
export interface Echo {
  /** `chatcmpl-…`, `cmpl-…`, `resp_…`. */
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly promptTokens: number;
  readonly tokens: readonly string[];
  readonly finish: "stop" | "length";
}

/** Words with the blanks before them: joined again they are the text. A token of a real model is shorter; a probe needs no more. */
export function tokensOf(text: string): readonly string[] {
  return text.match(/\s*\S+|\s+$/g) ?? [];
}

/** The text, cut at `maxTokens`. A probe that is told nothing says so: an empty answer would look like a fault. */
export function echoOf(
  given: { readonly id: string; readonly created: number; readonly model: string },
  prompt: string,
  said: string,
  maxTokens: number | undefined,
): Echo {
  const all = tokensOf(said === "" ? "nothing was said" : said);
  const tokens = maxTokens === undefined ? all : all.slice(0, maxTokens);
  return { ...given, promptTokens: tokensOf(prompt).length, tokens, finish: tokens.length < all.length ? "length" : "stop" };
}

export function usageOf({ promptTokens, tokens }: Echo) {
  return { prompt_tokens: promptTokens, completion_tokens: tokens.length, total_tokens: promptTokens + tokens.length };
}

export function chatAnswer(echo: Echo) {
  const message = { role: "assistant", content: echo.tokens.join("") };
  const choice = { index: 0, message, logprobs: null, finish_reason: echo.finish };
  return { id: echo.id, object: "chat.completion", created: echo.created, model: echo.model, choices: [choice], usage: usageOf(echo) };
}

/** Data of one event: the role first, then tokens, the reason of the end, and the usage where it is asked for. */
export function chatChunk(echo: Echo, part: "role" | "finish" | "usage" | { readonly token: string }) {
  const head = { id: echo.id, object: "chat.completion.chunk", created: echo.created, model: echo.model };
  if (part === "usage") return { ...head, choices: [], usage: usageOf(echo) };
  const delta = part === "role" ? { role: "assistant", content: "" } : part === "finish" ? {} : { content: part.token };
  return { ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason: part === "finish" ? echo.finish : null }] };
}

export function completionAnswer(echo: Echo) {
  const choice = { index: 0, text: echo.tokens.join(""), logprobs: null, finish_reason: echo.finish };
  return { id: echo.id, object: "text_completion", created: echo.created, model: echo.model, choices: [choice], usage: usageOf(echo) };
}

export function completionChunk(echo: Echo, part: "finish" | "usage" | { readonly token: string }) {
  const head = { id: echo.id, object: "text_completion", created: echo.created, model: echo.model };
  if (part === "usage") return { ...head, choices: [], usage: usageOf(echo) };
  const text = part === "finish" ? "" : part.token;
  return { ...head, choices: [{ index: 0, text, logprobs: null, finish_reason: part === "finish" ? echo.finish : null }] };
}

const DIMENSIONS = 64;

/** A direction that depends on the text alone, of length 1: equal texts are equal, and others are hardly alike. */
export function embeddingOf(text: string, dimensions = DIMENSIONS): readonly number[] {
  const values: number[] = [];
  let state = 2_166_136_261;
  for (let at = 0; at < dimensions; at++) {
    // FNV-1a over the text and the place (Fowler, Noll, Vo; offset 2166136261, prime 16777619).
    for (const char of `${at} ${text}`) state = Math.imul(state ^ (char.codePointAt(0) ?? 0), 16_777_619);
    values.push((state >>> 0) / 2 ** 31 - 1);
  }
  const length = Math.hypot(...values) || 1;
  return values.map((value) => value / length);
}

export function embeddingAnswer(model: string, texts: readonly string[], dimensions: number | undefined) {
  const tokens = texts.reduce((sum, text) => sum + tokensOf(text).length, 0);
  return {
    object: "list",
    model,
    data: texts.map((text, index) => ({ object: "embedding", index, embedding: embeddingOf(text, dimensions) })),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

type ResponseStatus = "in_progress" | "completed" | "incomplete";

export function responsesAnswer(echo: Echo, status: ResponseStatus = echo.finish === "stop" ? "completed" : "incomplete") {
  const done = status !== "in_progress";
  return {
    id: echo.id,
    object: "response",
    created_at: echo.created,
    status,
    model: echo.model,
    output: done ? [outputItem(echo, "completed")] : [],
    ...(status === "incomplete" ? { incomplete_details: { reason: "max_output_tokens" } } : {}),
    usage: done
      ? { input_tokens: echo.promptTokens, output_tokens: echo.tokens.length, total_tokens: echo.promptTokens + echo.tokens.length }
      : null,
  };
}

function outputItem(echo: Echo, status: "in_progress" | "completed") {
  const content = status === "completed" ? [outputText(echo.tokens.join(""))] : [];
  return { id: `msg_${echo.id}`, type: "message", role: "assistant", status, content };
}

function outputText(text: string) {
  return { type: "output_text", text, annotations: [] };
}

/** The whole row of events; those that carry a token are marked, so that they can be sent at the model's pace. */
export function responsesEvents(echo: Echo): readonly { readonly token: boolean; readonly data: { readonly type: string } }[] {
  const place = { item_id: `msg_${echo.id}`, output_index: 0, content_index: 0 };
  const text = echo.tokens.join("");
  const last = responsesAnswer(echo);
  const events = [
    { type: "response.created", response: responsesAnswer(echo, "in_progress") },
    { type: "response.in_progress", response: responsesAnswer(echo, "in_progress") },
    { type: "response.output_item.added", output_index: 0, item: outputItem(echo, "in_progress") },
    { type: "response.content_part.added", ...place, part: outputText("") },
    ...echo.tokens.map((delta) => ({ type: "response.output_text.delta", ...place, delta })),
    { type: "response.output_text.done", ...place, text },
    { type: "response.content_part.done", ...place, part: outputText(text) },
    { type: "response.output_item.done", output_index: 0, item: outputItem(echo, "completed") },
    { type: last.status === "completed" ? "response.completed" : "response.incomplete", response: last },
  ];
  return events.map((event, sequence_number) => ({ token: "delta" in event, data: { ...event, sequence_number } }));
}

export function modelsAnswer(names: readonly string[], created: number, contextLength: number) {
  return { object: "list", data: names.map((id) => ({ id, object: "model", created, owned_by: "llmgw", max_model_len: contextLength })) };
}

export function errorAnswer(message: string, type: string, code: number) {
  return { error: { message, type, param: null, code } };
}
