/** The echo engine's figures under the names that vLLM gives its own, so that whoever reads those can be tried on it. */
import { createMetricsPage, type Metric } from "../../lib/metrics.ts";

const LABELS = ["model_name"] as const;
const gauge = (name: string, help: string): Metric => ({ name, type: "gauge", help, labels: LABELS });
const counter = (name: string, help: string): Metric => ({ name, type: "counter", help, labels: LABELS });

const RUNNING = gauge("vllm:num_requests_running", "Requests that are being answered");
const WAITING = gauge("vllm:num_requests_waiting", "Requests that wait for their turn");
const CACHE = gauge("vllm:kv_cache_usage_perc", "Share of the slots in use, 0 to 1");
const PROMPT = counter("vllm:prompt_tokens_total", "Tokens that were told");
const GENERATED = counter("vllm:generation_tokens_total", "Tokens that were said");
const ABORTED = counter("vllm:request_aborted_total", "Requests whose client left");

export interface EchoFigures {
  readonly running: number;
  readonly waiting: number;
  readonly slots: number;
  readonly promptTokens: number;
  readonly generatedTokens: number;
  readonly aborted: number;
}

export function echoMetrics(model: string, figures: EchoFigures): string {
  const page = createMetricsPage();
  const labels = { model_name: model };
  page.set(RUNNING, labels, figures.running);
  page.set(WAITING, labels, figures.waiting);
  page.set(CACHE, labels, figures.running / figures.slots);
  page.set(PROMPT, labels, figures.promptTokens);
  page.set(GENERATED, labels, figures.generatedTokens);
  page.set(ABORTED, labels, figures.aborted);
  return page.text();
}
