/** `llmgw ctl operator`: who may use `ctl`, and whether they may change anything. */
import { printable } from "../../lib/printable.ts";
import { renderTable } from "../../lib/table.ts";
import { NewOperator, Operators } from "../../protocol/api.ts";
import { type Command, defineCommand, defineGroup, usageError } from "../command.ts";
import { ask } from "./client.ts";
import { connect } from "./connect.ts";
import { REMOVAL_FLAGS, SERVER_FLAGS } from "./flags.ts";
import { removal } from "./removal.ts";
import { noSuch, publicId } from "./token.ts";
import { timeText } from "./words.ts";

const LIST = "llmgw ctl operator list";

const create = defineCommand({
  name: "create",
  summary: "lets somebody in and prints their token, once",
  flags: {
    role: { kind: "choice", choices: ["admin", "viewer"], summary: "a viewer looks, an admin changes things; viewer unless given" },
    ...SERVER_FLAGS,
  },
  positionals: [{ name: "NAME", summary: "who it is for, such as a person or a program", required: true }],
  examples: ["llmgw ctl operator create mara --role admin > mara.token", "llmgw ctl operator create prometheus --role viewer"],
  run: async (ctx, args, [name = ""]) => {
    if (name.trim() === "" || name.length > 100) {
      throw usageError(`"${printable(name)}" is no name of an operator`, "it has 1 to 100 characters", "give a name");
    }
    const remote = await connect(ctx, args);
    const body = { name, role: args.role ?? "viewer" };
    const made = await ask(ctx, remote, { method: "POST", path: "/operators", body, answer: NewOperator });
    const { operator } = made;
    if (args.json !== true) {
      ctx.say(
        `The token of "${operator.name}", who is ${operator.role} (id ${operator.operator_id}). It is shown once: keep it in a file for --token-file.`,
      );
    }
    return { data: made, text: made.secret };
  },
});

const list = defineCommand({
  name: "list",
  summary: "who may use llmgw ctl",
  flags: SERVER_FLAGS,
  run: async (ctx, args) => {
    const data = await ask(ctx, await connect(ctx, args), { method: "GET", path: "/operators", answer: Operators });
    const table = renderTable(
      [{ title: "ID" }, { title: "NAME" }, { title: "ROLE" }, { title: "CREATED" }],
      data.operators.map((operator) => [operator.operator_id, operator.name, operator.role, timeText(operator.created_at)]),
    );
    return { data, text: table };
  },
});

const remove = defineCommand({
  name: "remove",
  summary: "lets an operator in no more",
  description: "Asks first on a terminal; --yes answers. The last admin stays.",
  flags: { ...REMOVAL_FLAGS, ...SERVER_FLAGS },
  positionals: [{ name: "ID", summary: "the operator's id, as llmgw ctl operator list shows it", required: true }],
  run: async (ctx, args, [word]) => {
    const id = publicId(word, LIST);
    return removal(ctx, args, {
      path: `/operators/${id}`,
      thing: `operator ${id}`,
      find: async (remote) => {
        const { operators } = await ask(ctx, remote, { method: "GET", path: "/operators", answer: Operators });
        const found = operators.find((operator) => operator.operator_id === id);
        if (found === undefined) throw noSuch("operator", id, LIST);
        return `"${found.name}", who is ${found.role}, is refused from then on`;
      },
    });
  },
});

export const operator: Command = defineGroup({
  name: "operator",
  summary: "Who may use llmgw ctl.",
  subcommands: {
    create: { summary: create.summary, load: async () => create },
    list: { summary: list.summary, load: async () => list },
    remove: { summary: remove.summary, load: async () => remove },
  },
});
