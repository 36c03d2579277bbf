/** The log: one line on stderr, `time level message key=value…`. The message is constant, everything that varies is a field. */
import { createConsola } from "consola/core";

export const LOG_LEVELS = ["error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Log {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
}

export interface LogOptions {
  readonly level: LogLevel;
  readonly write: (line: string) => void;
  readonly now: () => Date;
}

/** consola's numbers: a message is shown when its number is not above the level's. */
const NUMBERS: Readonly<Record<LogLevel, number>> = { error: 0, warn: 1, info: 3, debug: 4 };

export function createLog(options: LogOptions): Log {
  // consola prints `info` to stdout without a terminal: one reporter of ours writes everything to stderr instead.
  const consola = createConsola({
    level: NUMBERS[options.level],
    throttle: 0,
    reporters: [
      {
        log: (entry) => {
          const [message, fields] = entry.args;
          options.write(`${options.now().toISOString()} ${entry.type} ${String(message)}${renderFields(Object(fields))}\n`);
        },
      },
    ],
  });
  return {
    error: (message, fields) => consola.error(message, fields ?? {}),
    warn: (message, fields) => consola.warn(message, fields ?? {}),
    info: (message, fields) => consola.info(message, fields ?? {}),
    debug: (message, fields) => consola.debug(message, fields ?? {}),
  };
}

function renderFields(fields: object): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${key}=${quoted(String(value))}`)
    .join("");
}

/** What a terminal acts upon or shows nothing of: control, format and bidirectional characters, lone surrogates, line separators. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** A JSON string where a reader could not tell where the value ends; control characters never reach a terminal. */
function quoted(value: string): string {
  if (value !== "" && !/[\s"=]/.test(value) && value.search(UNPRINTABLE) < 0) return value;
  // JSON leaves DEL, the C1 controls (U+009B starts an escape sequence like ESC [) and bidirectional marks as they are.
  return JSON.stringify(value).replace(UNPRINTABLE, (character) =>
    Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}
