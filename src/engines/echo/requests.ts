/** Bodies that the echo engine takes: of OpenAI's API what clients send, all else ignored (reference: OpenAI API, chat, completions, embeddings, responses). */
import * as v from "valibot";

const Count = v.pipe(v.number(), v.integer(), v.minValue(1));
const Part = v.looseObject({ type: v.string(), text: v.optional(v.string()) });
const Content = v.nullish(v.union([v.string(), v.array(Part)]));
const Message = v.looseObject({ role: v.string(), content: Content });

const Common = {
  model: v.optional(v.string()),
  stream: v.nullish(v.boolean()),
  stream_options: v.nullish(v.looseObject({ include_usage: v.nullish(v.boolean()) })),
  max_tokens: v.nullish(Count),
};

export const ChatRequest = v.looseObject({
  ...Common,
  messages: v.pipe(v.array(Message), v.minLength(1, "at least one message")),
  max_completion_tokens: v.nullish(Count),
});
export type ChatRequest = v.InferOutput<typeof ChatRequest>;

export const CompletionRequest = v.looseObject({ ...Common, prompt: v.union([v.string(), v.array(v.string())]) });
export type CompletionRequest = v.InferOutput<typeof CompletionRequest>;

export const EmbeddingRequest = v.looseObject({
  model: v.optional(v.string()),
  input: v.union([v.string(), v.pipe(v.array(v.string()), v.minLength(1, "at least one text"))]),
  dimensions: v.nullish(v.pipe(Count, v.maxValue(4096))),
});
export type EmbeddingRequest = v.InferOutput<typeof EmbeddingRequest>;

export const ResponsesRequest = v.looseObject({
  model: v.optional(v.string()),
  stream: v.nullish(v.boolean()),
  max_output_tokens: v.nullish(Count),
  input: v.union([v.string(), v.array(v.looseObject({ role: v.optional(v.string()), content: Content }))]),
});
export type ResponsesRequest = v.InferOutput<typeof ResponsesRequest>;

/** The text of a message's content; parts that are no text count for nothing. */
export function textOf(content: v.InferOutput<typeof Content>): string {
  if (content === null || content === undefined) return "";
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
}

/** What is to be repeated: what the user said last. */
export function lastSaid(
  messages: readonly { readonly role?: string | undefined; readonly content?: v.InferOutput<typeof Content> }[],
): string {
  const own = messages.findLast((message) => message.role === "user") ?? messages.at(-1);
  return textOf(own?.content);
}
