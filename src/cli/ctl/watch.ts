/**
 * `--watch`: looks again and again. A terminal shows one frame, redrawn; anything else gets a block when something changed, so that a log of
 * it can be read. Ends with Ctrl-C, which is no failure. A server that is away for a while is waited for.
 */

import { pause } from "../../lib/clock.ts";
import { painter } from "../../lib/color.ts";
import type { UserError } from "../../lib/user-error.ts";
import { type Answer, usageError } from "../command.ts";
import type { Context } from "../context.ts";
import type { View } from "../view.ts";
import { connect, type Remote } from "./connect.ts";
import type { ServerArgs, WatchArgs } from "./flags.ts";
import { ServerAway } from "./server-away.ts";
import { timeText } from "./words.ts";

/** What one look gives. */
export interface Frame {
  readonly data: unknown;
  readonly text: (view: View) => string;
  readonly exitCode?: 0 | 1;
  /** The part of the data whose change is news: an age is none. All of it unless given. */
  readonly news?: unknown;
}

const USUAL_MS = 2_000;

/** One look, or one every few seconds. */
export async function show(ctx: Context, args: ServerArgs & WatchArgs, look: (remote: Remote) => Promise<Frame>): Promise<Answer> {
  const everyMs = intervalOf(args);
  const remote = await connect(ctx, args);
  if (args.watch !== true) {
    const { data, text, exitCode } = await look(remote);
    return { data, text, ...(exitCode === undefined ? {} : { exitCode }) };
  }
  const screen = args.json === true ? jsonLines(ctx) : ctx.isTTY ? redrawn(ctx, everyMs) : blocks(ctx);
  // What is wrong from the start is a mistake of whoever typed it.
  let first = true;
  while (!ctx.signal.aborted) {
    try {
      screen.show(await look(remote));
    } catch (error) {
      if (ctx.signal.aborted) break;
      if (first || !(error instanceof ServerAway)) throw error;
      screen.away(error);
    }
    first = false;
    await pause(ctx.clock, everyMs, ctx.signal);
  }
  return { data: undefined, text: "", printed: true };
}

function intervalOf(args: WatchArgs): number {
  const { interval } = args;
  if (interval === undefined) return USUAL_MS;
  if (args.watch !== true) throw usageError("--interval goes with --watch", "without it there is one look", "add --watch");
  const seconds = /^\d+(?:\.\d+)?$/.test(interval) ? Number(interval) : Number.NaN;
  if (seconds >= 0.5 && seconds <= 3_600) return seconds * 1_000;
  throw usageError(`--interval ${interval} is no time between two looks`, "it takes 0.5 to 3600 seconds", "write --interval 5");
}

interface Screen {
  show(frame: Frame): void;
  away(error: UserError): void;
}

/** Calls `print` when there is news, and says when the server went and came. */
function onNews(ctx: Context, print: (frame: Frame) => void): Screen {
  let before: string | undefined;
  let gone: string | undefined;
  return {
    show: (frame) => {
      if (gone !== undefined) ctx.say("llmgw: the server answers again");
      gone = undefined;
      const news = JSON.stringify(frame.news ?? frame.data);
      if (news !== before) print(frame);
      before = news;
    },
    away: ({ what, why }) => {
      const said = `llmgw: ${what}: ${why}; trying again`;
      if (said !== gone) ctx.say(said);
      gone = said;
    },
  };
}

/** One line of JSON for each change. */
function jsonLines(ctx: Context): Screen {
  return onNews(ctx, (frame) => ctx.print(`${JSON.stringify(frame.data)}\n`));
}

function blocks(ctx: Context): Screen {
  let first = true;
  return onNews(ctx, (frame) => {
    ctx.print(`${first ? "" : "\n"}${frame.text(ctx.view())}\n`);
    first = false;
  });
}

/** From the top left corner, every line to its end, and then whatever was below: without the flicker that clearing first would give. */
const HOME = "\u001b[H";
const CLEAR = "\u001b[2J";
const TO_LINE_END = "\u001b[K";
const TO_SCREEN_END = "\u001b[J";

function redrawn(ctx: Context, everyMs: number): Screen {
  let last: Frame | undefined;
  const draw = (note: string | undefined): void => {
    const view = ctx.view();
    const paint = painter(view.color);
    const head = `${timeText(ctx.now().toISOString())}, every ${everyMs / 1_000} s, Ctrl-C ends`;
    const body = last === undefined ? [] : last.text(view).split("\n");
    const lines = fitting([head, ...(note === undefined ? [] : [paint.red(note)]), "", ...body], view);
    ctx.print(`${HOME}${lines.map((line) => `${line}${TO_LINE_END}\n`).join("")}${TO_SCREEN_END}`);
  };
  return {
    show: (frame) => {
      if (last === undefined) ctx.print(CLEAR);
      last = frame;
      draw(undefined);
    },
    away: ({ what, why }) => draw(`${what}: ${why}; trying again`),
  };
}

/** A frame that is higher than the terminal would scroll, and the next one would not cover it. */
function fitting(lines: readonly string[], { rows, columns }: View): readonly string[] {
  if (rows === undefined || columns === undefined) return lines;
  const height = (line: string): number => Math.max(1, Math.ceil(Bun.stringWidth(line) / columns));
  // The cursor stands on a row of its own.
  const room = rows - 1;
  if (lines.reduce((sum, line) => sum + height(line), 0) <= room) return lines;
  const shown: string[] = [];
  let used = 1;
  for (const line of lines) {
    used += height(line);
    if (used > room) break;
    shown.push(line);
  }
  return [...shown, `… ${lines.length - shown.length} more lines: see them without --watch`];
}
