// clients/vectors.json: what the Rust tests, the client for Python and this one share.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import * as consign from "../src/index.js";
import { toArray } from "../src/encoding.js";
import { fromDriver, fromProblem } from "../src/errors.js";
import * as statements from "../src/statements.js";
import { drivers } from "./drivers.js";
import { database, query, vectors, type CallVector } from "./support.js";

type Given = Record<string, unknown>;
type Client = Pick<
  consign.HttpClient,
  "enqueue" | "enqueueMany" | "enqueueMixed" | "claim" | "renew" | "begin" | "settle" | "release"
>;

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** In the form of the vectors: names with underscores, and ids as numbers. */
function plain(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value ?? null;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [snake(name), plain(each)]));
}

function message(given: Given): consign.Message {
  return {
    payload: consign.rawJson(given["payload"] as string),
    queue: given["queue"] as string,
    key: given["key"] as string | undefined,
    group: given["group"] as string | undefined,
    headers: given["headers"] as Record<string, unknown> | undefined,
    delayMs: given["delay_ms"] as number | undefined,
    at: given["at"] as string | undefined,
  };
}

function reports(given: Given): consign.Report[] {
  return (given["reports"] as Given[]).map(({ id, delay_ms: delayMs, ...more }) => {
    const delay = delayMs === undefined ? {} : { delayMs };
    return { id: BigInt(id as number), ...more, ...delay } as consign.Report;
  });
}

/** Makes the call and returns its result in the form of the vectors. */
async function perform(client: Client, [operation, given]: CallVector["call"]): Promise<unknown> {
  const queue = given["queue"] as string;
  const token = given["token"] as string;
  const messages = ((given["messages"] ?? []) as Given[]).map(message);
  switch (operation) {
    case "enqueue": {
      const { payload, ...options } = message(given);
      return client.enqueue(queue, payload, options);
    }
    case "enqueue_many":
      return client.enqueueMany(queue, messages);
    case "enqueue_mixed":
      return client.enqueueMixed(messages);
    case "claim": {
      const { owner, limit, lease_ms: leaseMs } = given as { owner: string; limit: number; lease_ms?: number };
      const lease = await client.claim(queue, owner, limit, leaseMs);
      if (lease === undefined) return null;
      const deliveries = lease.deliveries.map(({ signal: _, createdAt, ...more }) => {
        assert.ok(createdAt.getTime() > 0);
        return more;
      });
      const { fence, expiresInMs } = lease;
      return { token: lease.token, fence, expiresInMs, deliveries };
    }
    case "renew":
      return client.renew(token, given["lease_ms"] as number);
    case "begin":
      return client.begin(token, (given["ids"] as number[]).map(BigInt));
    case "settle":
      return client.settle(token, reports(given));
    default:
      return client.release(token);
  }
}

async function check(client: Client, vector: CallVector): Promise<void> {
  if (vector.error !== undefined) {
    const error = await perform(client, vector.call).then(() => undefined, (each: unknown) => each);
    assert.ok(error instanceof consign.ConsignError, String(error));
    assert.equal(error.code, vector.error);
    assert.notEqual(error.constructor, consign.ConsignError);
    return;
  }
  const tidy = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value), (name, each: unknown) =>
      // PostgreSQL prints documents with blanks, the HTTP API without.
      name === "text" ? (each as string).replaceAll(" ", "") : each,
    );
  assert.deepEqual(tidy(plain(await perform(client, vector.call))), tidy(vector.result ?? null));
}

for (const vector of vectors.calls) {
  test(`SQL: ${vector.name}`, async () => {
    const { statement, parameters, rows } = vector.sql;
    const db = consign.fromQuery(async (text, values) => {
      assert.equal(text, vectors.statements[statement]);
      assert.deepEqual(values, parameters);
      const { error } = vector.sql as { error?: { sqlstate: string } };
      if (error !== undefined) throw Object.assign(new Error("no"), { code: error.sqlstate });
      return rows!;
    });
    const bound = (name: keyof Client) =>
      (consign[name] as (...values: unknown[]) => unknown).bind(undefined, db);
    const names = ["enqueue", "enqueueMany", "enqueueMixed", "claim", "renew", "begin", "settle", "release"] as const;
    await check(Object.fromEntries(names.map((name) => [name, bound(name)])) as unknown as Client, vector);
  });
}

/** A server that gives the answer of a vector, and keeps the request. */
let answering: CallVector["http"];
let request: { path: string | undefined; body: string; type: string | undefined };
const server = createServer((incoming, outgoing) => {
  let body = "";
  incoming.on("data", (chunk: Buffer) => (body += chunk.toString()));
  incoming.on("end", () => {
    request = { path: incoming.url, body, type: incoming.headers["content-type"] };
    outgoing.writeHead(answering.status).end(answering.answer);
  });
});
before(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
after(() => {
  server.close();
  server.closeAllConnections();
});

for (const vector of vectors.calls) {
  test(`HTTP: ${vector.name}`, async () => {
    answering = vector.http;
    const { port } = server.address() as AddressInfo;
    await check(new consign.HttpClient(`http://127.0.0.1:${port}`), vector);
    const { path, body } = vector.http;
    assert.deepEqual(request, { path, body, type: body === "" ? undefined : "application/json" });
  });
}

test("statements", () => {
  const own = Object.fromEntries(Object.entries(statements).map(([name, text]) => [snake(name), text]));
  assert.deepEqual(own, vectors.statements);
});

test("errors", () => {
  for (const { code, sqlstate, status } of vectors.errors) {
    const ofSql = fromDriver(Object.assign(new Error("no"), { code: sqlstate }));
    const ofHttp = fromProblem(status, { code }, undefined);
    assert.equal((ofSql as consign.ConsignError).code, code);
    assert.equal(ofHttp.code, code);
    assert.equal((ofSql as Error).constructor, ofHttp.constructor);
  }
});

test("arrays", async (t) => {
  const url = await database(t);
  for (const { items, text } of vectors.arrays) {
    assert.equal(toArray(items), text);
    const [row] = await query(url, "SELECT $1::text::text[] AS items", [text]);
    assert.deepEqual(row?.["items"], items);
  }
});

for (const vector of vectors.webhooks) {
  test(`webhook: ${vector.name}`, () => {
    const verifier = new consign.receiver.Verifier(vector.keys.join(" "));
    const rejected = vector.expect["rejected"];
    for (const headers of [vector.headers, new Headers(vector.headers)]) {
      const verify = () => verifier.verify(headers, vector.body, vector.now);
      if (rejected !== undefined) {
        assert.throws(verify, (error) => (error as { code: string }).code === rejected);
        continue;
      }
      const { body, fence, ...found } = verify();
      assert.equal(body.toString(), vector.body);
      assert.equal(Number(fence ?? NaN), Number(vector.expect["fence"] ?? NaN));
      const { fence: _, ...expected } = vector.expect;
      assert.deepEqual(plain(found), expected);
    }
  });
}

test("bad keys", () => {
  for (const key of (vectors as unknown as { bad_keys: string[] }).bad_keys) {
    assert.throws(
      () => new consign.receiver.Verifier(key),
      (error) => key === "" || !String(error).includes(key),
    );
  }
});

test("idempotency keys", () => {
  for (const { queue, key, id, idempotency_key: expected } of vectors.keys) {
    const more = { text: "1", headers: {}, createdAt: new Date(), attemptNo: 1, tries: 0 };
    const fields = { id: BigInt(id), queue, key, group: null, inDoubt: false, fence: 1n, ...more };
    const delivery = new consign.Delivery(fields, new AbortController().signal);
    assert.equal(delivery.idempotencyKey, expected);
  }
});

test("receipts", async (t) => {
  const url = await database(t);
  for (const { id, fence, receipt } of vectors.receipts) {
    await drivers["pg"]!(url, async (db) => {
      await consign.receiver.createTable(db);
      // A fence of the file may be larger than a number holds.
      const found = await consign.receiver.record(db, { id, fence: BigInt(fence) - BigInt(fence > 2 ** 53) });
      assert.equal(found, receipt);
    });
  }
});
