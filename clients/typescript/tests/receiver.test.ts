// A receiver in its own transaction, behind the real http sink.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { fromPg, receiver } from "../src/index.js";
import { drivers } from "./drivers.js";
import { database, eventually, openPool, query, server, states } from "./support.js";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

test("a message is applied once although its first answer is lost", async (t) => {
  const url = await database(t);
  const pool = openPool(url);
  t.after(() => pool.end());
  const verifier = new receiver.Verifier(SECRET);
  const receipts: string[] = [];
  const receive = async (headers: receiver.HeaderSource, body: Buffer): Promise<number> => {
    const webhook = verifier.verify(headers, body);
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      const receipt = await receiver.record(fromPg(client), webhook);
      if (receipt === "first") await client.query("INSERT INTO applied VALUES ($1)", [String(body)]);
      await client.query("COMMIT");
      receipts.push(receipt);
    } finally {
      client.release();
    }
    // The first answer gets lost on its way.
    return receipts.length === 1 ? 500 : 204;
  };
  const listener = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      receive(request.headers, Buffer.concat(chunks)).then(
        (status) => response.writeHead(status).end(),
        () => response.writeHead(401).end(),
      );
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  t.after(() => listener.close().closeAllConnections());
  await drivers["pg"]!(url, (db) => receiver.createTable(db));
  await query(url, "CREATE TABLE applied (body text)");
  const policy = '{"retry": {"kind": "fixed", "delay_ms": 1}}';
  await query(url, "SELECT consign.put_queue('default', $1, 'test', 'test')", [policy]);
  await query(url, `SELECT consign.enqueue('default', '{"n":1.10}', 'a.b')`);
  const { port } = listener.address() as AddressInfo;
  await server(t, url, (folder) => {
    const sink = ["kind = 'http'", "allow = ['127.0.0.1']", `url = 'http://127.0.0.1:${port}'`];
    const lines = ["[queues.default.sink]", ...sink, `signing_secret = '${SECRET}'`, ""];
    writeFileSync(`${folder}/consign.toml`, lines.join("\n"));
  });
  await eventually("it is delivered", async () => (await states(url))["delivered"] === 1);
  assert.deepEqual(receipts, ["first", "repeated"]);
  assert.deepEqual(await query(url, "SELECT body FROM applied"), [{ body: '{"n":1.10}' }]);
});

test("of two requests at once, one is the first", async (t) => {
  const url = await database(t);
  const webhook = { id: "orders:1", fence: 7n };
  await drivers["pg"]!(url, (db) => receiver.createTable(db));
  let second: Promise<receiver.Receipt> | undefined;
  await drivers["pg"]!(url, async (db) => {
    assert.equal(await receiver.record(db, webhook), "first");
    second = new Promise((resolve, reject) => {
      const transaction = drivers["pg"]!(url, async (other) => {
        resolve(await receiver.record(other, webhook));
      });
      transaction.catch(reject);
    });
    const waiting = "SELECT 1 FROM pg_locks WHERE NOT granted";
    await eventually("the second waits", async () => (await query(url, waiting)).length > 0);
  });
  assert.equal(await second, "repeated");
});
