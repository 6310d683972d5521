// A database and a server for each test that asks for them: real ones, of this checkout.

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";

import pg from "pg";

const POSTGRES = process.env["CONSIGN_TEST_POSTGRES_URL"]!;
const BINARY = process.env["CONSIGN_TEST_BINARY"]!;
const DEADLINE_MS = 30_000;

export const vectors = JSON.parse(
  readFileSync(process.env["CONSIGN_TEST_VECTORS"]!, "utf8"),
) as Vectors;

export interface Vectors {
  statements: Record<string, string>;
  arrays: { items: (string | null)[]; text: string }[];
  keys: { queue: string; key: string | null; id: number; idempotency_key: string }[];
  errors: { code: string; sqlstate: string | null; status: number }[];
  webhooks: {
    name: string;
    keys: string[];
    headers: Record<string, string>;
    body: string;
    now: number;
    expect: Record<string, unknown>;
  }[];
  receipts: { id: string; fence: number; receipt: string }[];
  calls: CallVector[];
}

export interface CallVector {
  name: string;
  call: [string, Record<string, unknown>];
  result?: unknown;
  error?: string;
  sql: { statement: string; parameters: (string | null)[]; rows?: Record<string, unknown>[] };
  http: { method: string; path: string; body: string; status: number; answer: string };
}

/** Waits until the condition holds and returns its value. */
export async function eventually<T>(what: string, condition: () => T | Promise<T>): Promise<T> {
  const ends = Date.now() + DEADLINE_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > ends) throw new Error(`${what} did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Without what the binary would read. */
function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("CONSIGN_"));
  return Object.fromEntries(kept);
}

export async function query(url: string, text: string, values: unknown[] = []) {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query(text, values)).rows as Record<string, unknown>[];
  } finally {
    await client.end();
  }
}

/** A pool whose connections may be cut off: the database of a test is dropped with force. */
export function openPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url });
  pool.on("error", () => {});
  pool.on("connect", (client) => void client.on("error", () => {}));
  return pool;
}

let template: Promise<string> | undefined;

async function migrated(): Promise<string> {
  const name = `consign_node_${randomUUID().slice(0, 8)}`;
  await query(POSTGRES, `CREATE DATABASE ${name}`);
  process.once("beforeExit", () => query(POSTGRES, `DROP DATABASE ${name} WITH (FORCE)`));
  const arguments_ = ["--database", address(name), "migrate"];
  const ran = spawnSync(BINARY, arguments_, { env: environment(), encoding: "utf8" });
  if (ran.status !== 0) throw new Error(ran.stderr);
  return name;
}

function address(name: string): string {
  return `${POSTGRES.slice(0, POSTGRES.lastIndexOf("/"))}/${name}`;
}

/** The address of a migrated database of the test's own. */
export async function database(test: TestContext): Promise<string> {
  const from = await (template ??= migrated());
  const name = `consign_node_${randomUUID().slice(0, 8)}`;
  await query(POSTGRES, `CREATE DATABASE ${name} TEMPLATE ${from}`);
  test.after(() => query(POSTGRES, `DROP DATABASE ${name} WITH (FORCE)`));
  return address(name);
}

/** The address of a server on a database. */
export async function server(
  test: TestContext,
  url: string,
  configure: (folder: string) => void = () => {},
): Promise<string> {
  const { child, address } = await startServer(url, configure);
  test.after(() => end(child, "SIGTERM"));
  return address;
}

/** `consign serve` on a database, in a folder that may get a consign.toml; and its address. */
export async function startServer(url: string, configure: (folder: string) => void = () => {}) {
  const folder = mkdtempSync(join(tmpdir(), "consign-node-"));
  configure(folder);
  const child = spawn(BINARY, ["--database", url, "serve", "--listen", "127.0.0.1:0"], {
    cwd: folder,
    env: environment(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.once("exit", () => rmSync(folder, { recursive: true }));
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const found = await eventually("the server listens", () => {
    if (child.exitCode !== null) throw new Error(output);
    return /listening\s+(http:\/\/\S+)/.exec(output)?.[1];
  });
  return { child, address: found! };
}

/** Signals a process and waits for its end; returns its exit code. */
export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }
  return child.exitCode;
}

/** tests/worker_program.ts as a process, and its lines. */
export function startWorker(...arguments_: string[]) {
  const program = new URL("worker_program.js", import.meta.url).pathname;
  const child = spawn(process.execPath, [program, ...arguments_], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const line = async (): Promise<string[]> => ((await lines.next()).value as string).split(" ");
  return { child, line };
}

/** How many messages of the queue are in which state. */
export async function states(url: string): Promise<Record<string, number>> {
  const rows = await query(
    url,
    "SELECT consign.state_of(id) AS state, count(*)::int AS count FROM consign.message " +
      "WHERE queue = 'default' GROUP BY 1",
  );
  return Object.fromEntries(rows.map((row) => [row["state"], row["count"] as number]));
}
