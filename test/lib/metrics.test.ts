import { expect, test } from "bun:test";
import fc from "fast-check";
import { createMetricsPage, type Metric } from "../../src/lib/metrics.ts";
import { lintMetrics } from "../support/metrics-lint.ts";

const HEAT: Metric = { name: "llmgw_heat_celsius", type: "gauge", help: "How hot", labels: ["node", "device"] };
const DONE: Metric = { name: "llmgw_done_total", type: "counter", help: "What is done", labels: [] };

test("samples of one metric stand together behind its help and type, and an unknown value is none", () => {
  const page = createMetricsPage();
  page.set(HEAT, { node: "a", device: "0" }, 40);
  page.set(DONE, {}, 3);
  page.set(HEAT, { node: "b" }, 41.5);
  page.set(HEAT, { node: "c" }, undefined);
  expect(page.text()).toBe(
    '# HELP llmgw_heat_celsius How hot\n# TYPE llmgw_heat_celsius gauge\nllmgw_heat_celsius{node="a",device="0"} 40\n' +
      'llmgw_heat_celsius{node="b",device=""} 41.5\n# HELP llmgw_done_total What is done\n# TYPE llmgw_done_total counter\nllmgw_done_total 3\n',
  );
});

test("a sample that stands twice, or a label that the metric has not, is our bug", () => {
  const page = createMetricsPage();
  page.set(DONE, {}, 1);
  expect(() => page.set(DONE, {}, 2)).toThrow("set twice");
  expect(() => page.set(HEAT, { card: "0" }, 1)).toThrow("no label card");
});

test("whatever stands in a label, the page can be read", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.double({ noNaN: true, noDefaultInfinity: true }), (node, value) => {
      const page = createMetricsPage();
      page.set(HEAT, { node: node.replaceAll("\r", "") }, value);
      expect(lintMetrics(page.text()).problems).toEqual([]);
    }),
  );
});

test("the lint finds what it is for", () => {
  const wrong = [
    "llmgw_x 1\n",
    "# HELP llmgw_x_mb x\n# TYPE llmgw_x_mb gauge\nllmgw_x_mb 1\n",
    "# HELP llmgw_x x\n# TYPE llmgw_x counter\nllmgw_x 1\n",
    "# HELP llmgw_x x\n# TYPE llmgw_x gauge\nllmgw_x 1\nllmgw_x 2\n",
    '# HELP llmgw_x x\n# TYPE llmgw_x gauge\nllmgw_x{a="b"c"} 1\n',
    "# HELP llmgw_x x\n# TYPE llmgw_x gauge\nllmgw_x 1",
    "# HELP llmgw_x x.\n# TYPE llmgw_x gauge\nllmgw_x 1\n",
    "# HELP llmgw_x x\n# TYPE llmgw_x gauge\nllmgw_x one\n",
  ];
  expect(wrong.filter((text) => lintMetrics(text).problems.length === 0)).toEqual([]);
});
