// Measures every driver beside pure SQL with the same driver, and prints rows of a table; see
// clients/python/tests/bench.py, whose rows these continue.

import { spawnSync } from "node:child_process";

import { PrismaPg } from "@prisma/adapter-pg";
import prisma from "@prisma/client";
import { sql as drizzleSql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";

import * as consign from "../src/index.js";
import { fromDrizzle } from "../src/drizzle.js";
import { fromKysely } from "../src/kysely.js";
import { end, openPool, query, startServer } from "./support.js";

// Of one round; a tenth of it is enqueued one by one.
const COUNT = Number(process.argv[2] ?? 2_000);
const ONE_BY_ONE = COUNT / 10;
const ROUNDS = 9;
const BATCH = 100;
const PAYLOAD = { to: "ada", order: 17, text: "x".repeat(150) };
const MANY = Array.from({ length: BATCH }, () => ({ payload: PAYLOAD }));

/** `work` claims and settles one batch, and returns whether there was one. */
interface Driver {
  one: () => Promise<unknown>;
  many: () => Promise<unknown>;
  work: () => Promise<boolean>;
}

type Query = (statement: string, ...parameters: unknown[]) => Promise<Record<string, unknown>[]>;

async function rate(step: () => Promise<unknown>, times: number, messages: number) {
  const began = performance.now();
  for (let each = 0; each < times; each++) await step();
  return (messages * 1_000) / (performance.now() - began);
}

/** Prints the three rows of a driver. Both run in turns, so that both meet the same machine. */
async function measure(name: string, client: Driver, pure?: Driver): Promise<void> {
  const kinds = pure === undefined ? [client] : [client, pure];
  const rates = new Map<string, number[][]>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const [kind, driver] of kinds.entries()) {
      const total = ONE_BY_ONE + COUNT;
      const steps = [
        ["enqueue one by one", driver.one, ONE_BY_ONE, ONE_BY_ONE],
        [`enqueue ${BATCH} at once`, driver.many, COUNT / BATCH, COUNT],
        [`claim and settle ${BATCH} at once`, driver.work, total / BATCH, total],
      ] as const;
      for (const [what, step, times, messages] of steps) {
        const found = rates.get(what) ?? [[], []];
        found[kind]!.push(await rate(step, times, messages));
        rates.set(what, found);
      }
      if (await driver.work()) throw new Error("the queue is not empty after a round");
    }
  }
  const show = (value: number) => Math.round(value).toLocaleString("en-US");
  for (const [what, [own, other]] of rates) {
    const mine = Math.max(...own!);
    const control = other!.length === 0 ? undefined : Math.max(...other!);
    const compared = control === undefined ? "– | –" : `${show(control)} | ${(mine / control).toFixed(2)}`;
    console.log(`| TypeScript, ${name} | ${what} | ${show(mine)} | ${compared} |`);
  }
}

function reports(lease: consign.Lease): consign.Report[] {
  const read = lease.deliveries.filter((each) => each.payload);
  return read.map(({ id }) => ({ id, outcome: "delivered" }));
}

function overSql(db: consign.Db): Driver {
  return {
    one: () => consign.enqueue(db, "default", PAYLOAD),
    many: () => consign.enqueueMany(db, "default", MANY),
    async work() {
      const lease = await consign.claim(db, "default", "bench", BATCH);
      if (lease !== undefined) await consign.settle(db, lease.token, reports(lease));
      return lease !== undefined;
    },
  };
}

function overHttp(client: consign.HttpClient): Driver {
  return {
    one: () => client.enqueue("default", PAYLOAD),
    many: () => client.enqueueMany("default", MANY),
    async work() {
      const lease = await client.claim("default", "bench", BATCH);
      if (lease !== undefined) await client.settle(lease.token, reports(lease));
      return lease !== undefined;
    },
  };
}

/** What a program writes by hand, with the driver's own arrays. */
function byHand(run: Query): Driver {
  return {
    one: () => run("SELECT consign.enqueue('default', $1::jsonb)", JSON.stringify(PAYLOAD)),
    many: () =>
      run(
        "SELECT id FROM consign.enqueue_many('default', $1::text[]::jsonb[])",
        MANY.map(({ payload }) => JSON.stringify(payload)),
      ),
    async work() {
      const claim = "SELECT token::text AS token, id::text AS id, payload::text AS payload";
      const rows = await run(`${claim} FROM consign.claim('default', 'bench', ${BATCH})`);
      const ids = rows.filter((row) => JSON.parse(row["payload"] as string)).map((row) => row["id"]);
      const settle = "SELECT id::text AS id FROM consign.settle($1::text::uuid, $2::text[]::bigint[])";
      if (rows.length > 0) await run(settle, rows[0]?.["token"], ids);
      return rows.length > 0;
    },
  };
}

async function measureAll(url: string): Promise<void> {
  // One connection each, as in a transaction.
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  const overPg: Query = async (text, ...values) => (await pool.query(text, values)).rows;
  await measure("pg", overSql(consign.fromPg(pool)), byHand(overPg));

  const sql = postgres(url, { max: 1 });
  const overPostgres: Query = async (text, ...values) => [...(await sql.unsafe(text, values as never[]))];
  await measure("postgres.js", overSql(consign.fromPostgres(sql)), byHand(overPostgres));
  await sql.end();

  const client = new prisma.PrismaClient({ adapter: new PrismaPg(openPool(url)) });
  const overPrisma: Query = (text, ...values) => client.$queryRawUnsafe(text, ...values);
  await measure("Prisma", overSql(consign.fromPrisma(client)), byHand(overPrisma));
  await client.$disconnect();

  const db = drizzle(pool);
  const overDrizzle: Query = async (text, ...values) => {
    const parts = text.split(/\$\d+/).flatMap((part, at) => {
      const value = at < values.length ? [drizzleSql`${drizzleSql.param(values[at])}`] : [];
      return [drizzleSql.raw(part), ...value];
    });
    return (await db.execute(drizzleSql.join(parts))).rows;
  };
  await measure("Drizzle", overSql(fromDrizzle(db)), byHand(overDrizzle));

  const kysely = new Kysely<object>({ dialect: new PostgresDialect({ pool }) });
  const overKysely: Query = async (text, ...values) => {
    return (await kysely.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text, values))).rows;
  };
  await measure("Kysely", overSql(fromKysely(kysely)), byHand(overKysely));
  await kysely.destroy();

  const { child, address } = await startServer(url);
  await measure("HTTP", overHttp(new consign.HttpClient(address)));
  await end(child, "SIGTERM");
}

const POSTGRES = process.env["CONSIGN_TEST_POSTGRES_URL"]!;
const name = `consign_bench_${process.pid}`;
await query(POSTGRES, `CREATE DATABASE ${name}`);
const url = `${POSTGRES.slice(0, POSTGRES.lastIndexOf("/"))}/${name}`;
const migrated = spawnSync(process.env["CONSIGN_TEST_BINARY"]!, ["--database", url, "migrate"], {
  env: { PATH: process.env["PATH"] },
});
if (migrated.status !== 0) throw new Error(migrated.stderr.toString());
await measureAll(url);
await query(POSTGRES, `DROP DATABASE ${name} WITH (FORCE)`);
console.log(`\nNode.js ${process.version}`);
