// Workers over SQL and HTTP: outcomes, leases, stops and kills.

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { PrismaPg } from "@prisma/adapter-pg";
import prisma from "@prisma/client";
import pg from "pg";
import postgres from "postgres";

import * as consign from "../src/index.js";
import { database, end, eventually, openPool, query, server, startWorker, states } from "./support.js";

const HOUR = `{"retry": {"kind": "fixed", "delay_ms": 3600000}}`;

async function fill(url: string, count: number): Promise<bigint[]> {
  const client = new pg.Client(url);
  await client.connect();
  const messages = Array.from({ length: count }, (_, payload) => ({ payload }));
  const done = await consign.enqueueMany(consign.fromPg(client), "default", messages);
  await client.end();
  return done.map((each) => each.id);
}

type Sources = (t: TestContext, url: string) => Promise<consign.Source | consign.HttpClient>;

const sources: Record<string, Sources> = {
  async pg(t, url) {
    const pool = openPool(url);
    t.after(() => pool.end());
    return consign.sqlSource(consign.fromPg(pool), consign.listenPg(() => new pg.Client(url)));
  },
  async postgres(t, url) {
    const sql = postgres(url);
    t.after(() => sql.end());
    return consign.sqlSource(consign.fromPostgres(sql), consign.listenPostgres(sql));
  },
  async prisma(t, url) {
    const client = new prisma.PrismaClient({ adapter: new PrismaPg(openPool(url)) });
    t.after(() => client.$disconnect());
    return consign.sqlSource(consign.fromPrisma(client));
  },
  async http(t, url) {
    return new consign.HttpClient(await server(t, url));
  },
};

const warn = () => {};

for (const [name, source] of Object.entries(sources)) {
  test(`${name}: reports what the handler returns`, async (t) => {
    const url = await database(t);
    await query(url, "SELECT consign.put_queue('default', $1, 'test', 'test')", [HOUR]);
    const ids = await fill(url, 6);
    const outcomes: Record<number, consign.Outcome> = {
      1: { outcome: "delivered", result: { ok: true } },
      2: { outcome: "dead", code: "gone", detail: "no such address" },
      3: { outcome: "retry", code: "busy", delayMs: 3_600_000 },
      5: { outcome: "delivered", result: 1n },
    };
    const handler = (delivery: consign.Delivery) => {
      assert.ok(delivery.fence > 0n && delivery.attemptNo === 1);
      if (delivery.payload === 4) throw new Error("out of paper");
      return outcomes[delivery.payload as number];
    };
    await new consign.Worker(await source(t, url), "default", handler, { warn }).run({
      untilEmpty: true,
    });
    assert.deepEqual(await states(url), { delivered: 2, dead: 1, ready: 3 });
    const attempts = await query(
      url,
      "SELECT outcome, code, detail, result FROM consign.attempt_view ORDER BY message_id",
    );
    const short = attempts.map((row) => [row["outcome"], row["code"], row["detail"]]);
    assert.deepEqual(short.slice(0, 5), [
      ["delivered", null, null],
      ["delivered", null, null],
      ["dead", "gone", "no such address"],
      ["retry", "busy", null],
      ["retry", "handler_failed", "Error: out of paper"],
    ]);
    assert.deepEqual(attempts[1]?.["result"], { ok: true });
    assert.equal(short[5]?.[1], "handler_failed");
    assert.equal(ids.length, 6);
  });

  test(`${name}: handlers run at once, and long ones keep their lease`, async (t) => {
    const url = await database(t);
    await fill(url, 4);
    let running = 0;
    const handler = async (delivery: consign.Delivery) => {
      running++;
      await eventually("all run at once", () => running === 4);
      await new Promise((resolve) => setTimeout(resolve, 4_000));
      assert.ok(!delivery.signal.aborted);
    };
    const options = { concurrency: 4, leaseMs: 2_000, warn };
    await new consign.Worker(await source(t, url), "default", handler, options).run({
      untilEmpty: true,
    });
    assert.deepEqual(await states(url), { delivered: 4 });
    const [row] = await query(url, "SELECT count(*)::int AS count FROM consign.attempt");
    assert.equal(row?.["count"], 4);
  });

  test(`${name}: a commit wakes a worker`, async (t) => {
    const url = await database(t);
    const got: bigint[] = [];
    const handler = (delivery: consign.Delivery) => void got.push(delivery.id);
    const worker = new consign.Worker(await source(t, url), "default", handler);
    const running = worker.run();
    for (let round = 0; round < 3; round++) {
      const [id] = await fill(url, 1);
      await eventually("the message is handled", () => got.at(-1) === id);
    }
    worker.stop();
    await running;
    assert.deepEqual(await states(url), { delivered: 3 });
  });

  test(`${name}: a lost lease is noticed and its result kept as evidence`, async (t) => {
    const url = await database(t);
    const ids = await fill(url, 2);
    const handler = async (delivery: consign.Delivery) => {
      const [lease] = await query(url, "SELECT token::text AS token FROM consign.lease");
      await query(url, "SELECT consign.terminate_lease($1, 'test', 'test')", [lease?.["token"]]);
      await eventually("the loss is noticed", () => delivery.signal.aborted);
      worker.stop();
    };
    const options = { leaseMs: 1_000, warn };
    const worker = new consign.Worker(await source(t, url), "default", handler, options);
    await worker.run();
    assert.deepEqual(await states(url), { ready: 2 });
    const late = await query(url, "SELECT message_id, outcome FROM consign.late_view");
    assert.deepEqual(late, [{ message_id: String(ids[0]), outcome: "delivered" }]);
  });
}

for (const transport of ["sql", "http"]) {
  test(`${transport}: SIGTERM finishes the running message and releases the rest`, async (t) => {
    const url = await database(t);
    const address = transport === "http" ? await server(t, url) : url;
    const ids = await fill(url, 5);
    const worker = startWorker(transport, address, "slow");
    assert.deepEqual((await worker.line()).slice(0, 2), [String(ids[0]), "1"]);
    assert.equal(await end(worker.child, "SIGTERM"), 0);
    assert.deepEqual(await states(url), { delivered: 1, ready: 4 });
    const [row] = await query(
      url,
      "SELECT (SELECT count(*) FROM consign.attempt)::int AS attempts, " +
        "(SELECT count(*) FROM consign.lease)::int AS leases",
    );
    assert.deepEqual(row, { attempts: 1, leases: 0 });
  });

  test(`${transport}: a killed worker's messages come back, its late settle is rejected`, async (t) => {
    const url = await database(t);
    const address = transport === "http" ? await server(t, url) : url;
    const ids = await fill(url, 3);
    const killed = startWorker(transport, address, "hang");
    const [id, attemptNo, fence] = await killed.line();
    const [lease] = await query(url, "SELECT token::text AS token FROM consign.lease");
    await end(killed.child, "SIGKILL");
    const second = startWorker(transport, address, "deliver");
    const got = [await second.line(), await second.line(), await second.line()];
    assert.deepEqual(got.map((line) => BigInt(line[0]!)).sort(), ids);
    const again = got.find((line) => line[0] === id)!;
    assert.equal(Number(again[1]), Number(attemptNo) + 1);
    assert.ok(BigInt(again[2]!) > BigInt(fence!));
    const token = lease?.["token"] as string;
    const reports = [{ id: BigInt(id!), outcome: "delivered" }] as const;
    const pool = openPool(url);
    const late =
      transport === "http"
        ? new consign.HttpClient(address).settle(token, reports)
        : consign.settle(consign.fromPg(pool), token, reports);
    await assert.rejects(late, consign.LeaseLost);
    await pool.end();
    assert.equal(await end(second.child, "SIGTERM"), 0);
    assert.deepEqual(await states(url), { delivered: 3 });
  });
}

test("an unknown queue ends a worker", async (t) => {
  const url = await database(t);
  const source = await sources["pg"]!(t, url);
  const worker = new consign.Worker(source, "nope", () => {}, { warn });
  await assert.rejects(worker.run(), consign.UnknownQueue);
});
