// Enqueueing in the caller's transaction, with every driver.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as consign from "../src/index.js";
import { drivers } from "./drivers.js";
import { database, query, states } from "./support.js";

const EXACT = '{"d":0.12345678901234567890,"n":12345678901234567890123}';
const CANCELLED = new Error("rolls the transaction back");

for (const [name, transact] of Object.entries(drivers)) {
  test(`${name}: enqueues with the transaction or not at all`, async (t) => {
    const url = await database(t);
    const cancelled = transact(url, async (db) => {
      await consign.enqueue(db, "default", { to: "ada" });
      assert.equal((await consign.enqueuedIn(db, "default")).length, 1);
      throw CANCELLED;
    });
    await assert.rejects(cancelled);
    assert.deepEqual(await states(url), {});
    await transact(url, async (db) => {
      const options = { key: "k$1%s:1", headers: { kind: "mail" } };
      const id = await consign.enqueue(db, "default", { to: "ada" }, options);
      assert.equal(await consign.enqueue(db, "default", { to: "ada" }, options), id);
      await consign.assertEnqueued(db, "default", { payload: { to: "ada" }, ...options });
      await assert.rejects(consign.assertEnqueued(db, "default", { payload: { to: "bob" } }));
    });
    assert.deepEqual(await states(url), { ready: 1 });
  });

  test(`${name}: enqueues in bulk`, async (t) => {
    const url = await database(t);
    const texts = ["plain", 'quo"te', "back\\slash", "NULL", "", "{a,b}", "Grüße $1 %s", "a\nb"];
    await transact(url, async (db) => {
      const many = texts.map((text) => ({ payload: { text }, key: `${text}!`, group: `${text}?` }));
      const done = await consign.enqueueMany(db, "default", many);
      assert.deepEqual(new Set(done.map((each) => each.duplicate)), new Set([false]));
      const again = await consign.enqueueMany(db, "default", many);
      assert.deepEqual(again[0], { id: done[0]!.id, duplicate: true, state: "ready" });
      const found = await consign.enqueuedIn(db, "default");
      assert.deepEqual(
        found.map((each) => [(each.payload as { text: string }).text, each.key, each.group]),
        texts.map((text) => [text, `${text}!`, `${text}?`]),
      );
      assert.deepEqual(await consign.enqueueMany(db, "default", []), []);
    });
  });

  test(`${name}: enqueues for several queues and times, and works`, async (t) => {
    const url = await database(t);
    await query(url, "SELECT consign.put_queue('mail', '{}', 'test', 'test')");
    await transact(url, async (db) => {
      const mixed = await consign.enqueueMixed(db, [
        { queue: "mail", payload: 1, delayMs: 300_000 },
        { payload: consign.rawJson(EXACT) },
        { queue: "mail", payload: null, at: new Date(Date.now() + 3_600_000) },
      ]);
      assert.equal(await consign.claim(db, "mail", "test"), undefined);
      const lease = await consign.claim(db, "default", "test", 10, 30_000);
      assert.ok(lease !== undefined);
      const [delivery] = lease.deliveries;
      assert.equal(delivery?.id, mixed[1]?.id);
      assert.equal(delivery?.text.replaceAll(" ", ""), EXACT);
      assert.equal(delivery?.attemptNo, 1);
      assert.equal(delivery?.inDoubt, false);
      assert.ok(Math.abs(delivery!.createdAt.getTime() - Date.now()) < 60_000);
      assert.ok(!Object.keys(lease).includes("token"), "a log of the lease does not show it");
      await consign.renew(db, lease.token, 60_000);
      await consign.begin(db, lease.token, [delivery!.id]);
      const report = { id: delivery!.id, outcome: "dead", code: "gone", detail: 'a "b"' } as const;
      const [recorded] = await consign.settle(db, lease.token, [report]);
      const expected = { attemptNo: 1, outcome: "dead", state: "dead", repeated: false };
      assert.deepEqual(recorded, { id: delivery!.id, ...expected });
    });
    assert.deepEqual(await states(url), { dead: 1 });
  });

  test(`${name}: rejections are typed`, async (t) => {
    const url = await database(t);
    const failing = async (use: (db: consign.Db) => Promise<unknown>) => {
      let found: unknown;
      const transaction = transact(url, async (db) => {
        found = await use(db).then(() => undefined, (error: unknown) => error);
        throw found;
      });
      await assert.rejects(transaction);
      return found as consign.ConsignError;
    };
    const unknown = await failing((db) => consign.enqueue(db, "nope", 1));
    assert.ok(unknown instanceof consign.UnknownQueue, String(unknown));
    assert.equal(unknown.code, "unknown_queue");
    await transact(url, async (db) => {
      await consign.enqueue(db, "default", 1, { key: "k" });
    });
    const conflict = await failing((db) => consign.enqueue(db, "default", 2, { key: "k" }));
    assert.ok(conflict instanceof consign.KeyConflict, String(conflict));
    const both = { delayMs: 1, at: new Date() };
    const invalid = await failing((db) => consign.enqueue(db, "default", 1, both));
    assert.ok(invalid instanceof consign.InvalidInput, String(invalid));
    const token = "00000000-0000-0000-0000-000000000000";
    const lost = await failing((db) =>
      consign.settle(db, token, [{ id: 1n, outcome: "delivered" }]),
    );
    assert.ok(lost instanceof consign.LeaseLost, String(lost));
  });
}
