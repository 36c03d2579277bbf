/** A PostgreSQL of the test's own, from Debian's package `postgresql`, in a temporary folder: nothing of the machine's is touched. */

import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";

export interface Postgres extends AsyncDisposable {
  /** A new, empty database. */
  database(): Promise<string>;
  /** Ends the server's process at once, as a crash would. */
  kill(): Promise<void>;
  /** Starts it again on the same files and port. */
  start(): Promise<void>;
}

/** Folder of initdb and postgres; `undefined` where the package is not installed. */
export function postgresFolder(): string | undefined {
  const versions = existsSync("/usr/lib/postgresql") ? readdirSync("/usr/lib/postgresql") : [];
  const folders = versions.toSorted((one, other) => Number(other) - Number(one)).map((version) => `/usr/lib/postgresql/${version}/bin`);
  return folders.find((folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "postgres")));
}

/** PostgreSQL refuses to run as root: the user that its package brings, else nobody. */
function asUser(user: string): readonly string[] {
  return process.getuid?.() === 0 ? ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups"] : [];
}

function run(cmd: readonly string[]): void {
  const done = Bun.spawnSync({ cmd: [...cmd], stdout: "pipe", stderr: "pipe", cwd: "/" });
  if (done.exitCode !== 0) throw new Error(`${cmd.join(" ")}: ${done.stderr.toString()}`);
}

function freePort(): number {
  const taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  taken.stop(true);
  return taken.port;
}

/** Starts a cluster. Throws where the package is not installed; ask `postgresFolder` first. */
export async function startPostgres(): Promise<Postgres> {
  const bin = postgresFolder();
  if (bin === undefined) throw new Error("PostgreSQL is not installed");
  const folder = mkdtempSync(join(tmpdir(), "llmgw-postgres-"));
  const user = Bun.spawnSync({ cmd: ["id", "postgres"], stdout: "ignore", stderr: "ignore" }).exitCode === 0 ? "postgres" : "nobody";
  if (process.getuid?.() === 0) run(["chown", user, folder]);
  chmodSync(folder, 0o700);
  const data = join(folder, "data");
  run([...asUser(user), join(bin, "initdb"), "--pgdata", data, "--username=llmgw", "--auth=trust", "--no-sync", "--encoding=UTF8"]);
  const port = freePort();
  const url = (database: string): string => `postgres://llmgw@127.0.0.1:${port}/${database}`;
  let server: Bun.Subprocess | undefined;
  let databases = 0;

  const start = async (): Promise<void> => {
    const settings = [`port=${port}`, "listen_addresses=127.0.0.1", `unix_socket_directories=${folder}`, "fsync=off"];
    server = Bun.spawn({
      cmd: [...asUser(user), join(bin, "postgres"), "-D", data, ...settings.flatMap((setting) => ["-c", setting])],
      cwd: "/",
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    });
    const deadline = Date.now() + 20_000;
    while (!(await answers(url("postgres")))) {
      if (server.exitCode !== null || Date.now() > deadline) throw new Error("PostgreSQL did not start");
      await Bun.sleep(50);
    }
  };
  const kill = async (): Promise<void> => {
    server?.kill("SIGQUIT");
    await server?.exited;
    server = undefined;
  };

  await start();
  return {
    database: async () => {
      const name = `llmgw_${databases++}`;
      const sql = new SQL(url("postgres"), { max: 1 });
      await sql.unsafe(`CREATE DATABASE ${name}`);
      await sql.close();
      return url(name);
    },
    kill,
    start,
    [Symbol.asyncDispose]: async () => {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function answers(url: string): Promise<boolean> {
  const sql = new SQL(url, { max: 1, connectionTimeout: 2 });
  try {
    await sql`SELECT 1`;
    return true;
  } catch {
    return false;
  } finally {
    await sql.close().catch(() => undefined);
  }
}
