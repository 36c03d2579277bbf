/**
 * Many agents in one process, for the bench of the server: each with the real end of the stream, real sockets and a real inventory, and
 * without a node to look at. `bun test/bench/fake-agents.ts URL TOKEN COUNT`; says on stdout how many are connected, whenever that changes.
 */
import { createLink, type Link } from "../../src/agent/link.ts";
import { createStreamClient } from "../../src/agent/stream-client.ts";
import { lastingPart, loadOf } from "../../src/domain/load-sample.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/lib/log.ts";
import { JoinAnswer } from "../../src/protocol/api.ts";
import { callApi } from "../../src/protocol/client.ts";
import { hashSecret, newSecret } from "../../src/protocol/secrets.ts";
import { inventoryOf } from "../support/machines.ts";

const [url = "", token = "", count = "0"] = process.argv.slice(2);
const random = (bytes: number): Uint8Array => crypto.getRandomValues(new Uint8Array(bytes));
const inventory = await inventoryOf("h100-nvswitch-8");
const lasting = lastingPart(inventory);
const log = createLog({ level: "error", write: (line) => process.stderr.write(line), now: () => new Date() });
const streams = createStreamClient({ url, trust: {} });

async function startOne(at: number): Promise<Link> {
  const node_id = `fake-${String(at).padStart(5, "0")}`;
  const credential = newSecret("node", random);
  const body = { token, node_id, credential_hash: hashSecret(credential) };
  const joined = await callApi(
    { url, tls: undefined, secret: undefined },
    { method: "POST", path: "/join", body, answer: JoinAnswer, timeoutMs: 60_000 },
  );
  if (joined.kind !== "ok") throw new Error(`${node_id} could not join: ${JSON.stringify(joined)}`);
  const link = createLink({
    clock: systemClock,
    chance: Math.random,
    connect: (events, signal) => streams.open(credential, events, signal),
    log,
    greeting: () => ({ node_id, agent_version: "bench", hostname: node_id }),
    instance: node_id,
    answer: async () => ({}),
  });
  link.set("inventory", { ...lasting, hostname: node_id });
  link.set("findings", []);
  link.setLoad(loadOf(inventory, new Date().toISOString()));
  return link;
}

const links: Link[] = [];
const left = Array.from({ length: Number(count) }, (_, at) => at);
// As many at a time as a cluster that is set up by a script would send.
const workers = Array.from({ length: 32 }, async () => {
  for (let at = left.shift(); at !== undefined; at = left.shift()) links.push(await startOne(at));
});
await Promise.all(workers);
process.stdout.write("joined\n");
let told = -1;
setInterval(() => {
  const connected = links.filter((link) => link.state().kind === "connected").length;
  if (connected !== told) process.stdout.write(`connected ${connected}\n`);
  told = connected;
}, 50);
