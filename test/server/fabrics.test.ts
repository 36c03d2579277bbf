import { expect, test } from "bun:test";
import { summarize } from "../../src/domain/node.ts";
import { fabricViews } from "../../src/server/fabrics.ts";
import { inventoryOf } from "../support/machines.ts";

const summary = summarize(await inventoryOf("h100-nvswitch-8"));
const port = (more: object) => ({ adapter: "mlx5_0", port: 1, state: "ACTIVE", link_layer: "InfiniBand", lid: 4, sm_lid: 1, ...more });
const node = (node_id: string, ports: readonly object[]) => ({ node_id, summary: { ...summary, ports: ports.map(port) } });

test("ports of nodes that declare one fabric stand together, and undeclared ones that are up apart", () => {
  const views = fabricViews([
    node("b", [{ fabric: "rail0", lid: 5 }, { adapter: "mlx5_1" }, { adapter: "mlx5_2", state: "DOWN" }]),
    node("a", [{ fabric: "rail0" }, { fabric: "alpha", adapter: "mlx5_9" }]),
    { node_id: "new", summary: undefined },
  ]);
  expect(views.fabrics.map(({ fabric, ports }) => [fabric, ports.map((one) => `${one.node_id} ${one.adapter}`)])).toEqual([
    ["alpha", ["a mlx5_9"]],
    ["rail0", ["b mlx5_0", "a mlx5_0"]],
  ]);
  expect(views.fabrics.every((view) => view.contradictions.length === 0)).toBe(true);
  expect(views.undeclared.map((one) => `${one.node_id} ${one.adapter}`)).toEqual(["b mlx5_1"]);
});

test("what two nodes show that cannot be on one fabric is said of it", () => {
  const { fabrics } = fabricViews([node("a", [{ fabric: "rail0" }]), node("b", [{ fabric: "rail0", sm_lid: 9 }])]);
  expect(fabrics[0]?.contradictions).toEqual([
    "its subnet managers differ (SM LID 1: a mlx5_0 port 1; SM LID 9: b mlx5_0 port 1): different subnets, unless one is handing over to another at this moment",
    "LID 4 is given to both a mlx5_0 port 1 and b mlx5_0 port 1: a LID is unique in a subnet, so these are different subnets",
  ]);
});

test("a port that is down proves nothing, and one LID twice on one node is that node's own warning", () => {
  const down = fabricViews([node("a", [{ fabric: "rail0" }]), node("b", [{ fabric: "rail0", state: "DOWN", sm_lid: 9 }])]);
  expect(down.fabrics[0]?.contradictions).toEqual([]);
  const virtual = fabricViews([node("a", [{ fabric: "rail0" }, { fabric: "rail0", adapter: "mlx5_4" }])]);
  expect(virtual.fabrics[0]?.contradictions).toEqual([]);
});
