// The operations in the caller's transaction: nothing here commits or rolls back.

import type { Db, Row } from "./db.js";
import { toArray, toColumn, toInterval, toJson, toTime } from "./encoding.js";
import {
  Lease,
  type Enqueued,
  type EnqueueOptions,
  type Message,
  type Recorded,
  type Report,
} from "./model.js";
import * as statements from "./statements.js";

/** Enqueues one message and returns its id; a repeated key returns that of the first. */
export async function enqueue(
  db: Db,
  queue: string,
  payload: unknown,
  options: EnqueueOptions = {},
): Promise<bigint> {
  const rows = await db.run(statements.enqueue, [
    queue,
    toJson(payload),
    options.key ?? null,
    options.group ?? null,
    options.headers === undefined ? null : toJson(options.headers),
    toInterval(options.delayMs),
    toTime(options.at),
  ]);
  return BigInt(String(rows[0]?.["id"]));
}

/** Enqueues messages of one queue in one call: all or none, in their order. */
export async function enqueueMany(
  db: Db,
  queue: string,
  messages: readonly Message[],
  options: Pick<EnqueueOptions, "delayMs" | "at"> = {},
): Promise<Enqueued[]> {
  const delay = toInterval(options.delayMs);
  const parameters = [queue, ...columns(messages), delay, toTime(options.at)];
  return enqueued(await db.run(statements.enqueueMany, parameters));
}

/** The same for messages of several queues and times. */
export async function enqueueMixed(db: Db, messages: readonly Message[]): Promise<Enqueued[]> {
  const rows = await db.run(statements.enqueueMixed, [
    toArray(messages.map((each) => each.queue ?? "default")),
    ...columns(messages),
    toArray(messages.map((each) => toInterval(each.delayMs ?? 0))),
    toArray(messages.map((each) => toTime(each.at))),
  ]);
  return enqueued(rows);
}

function columns(messages: readonly Message[]): (string | null)[] {
  const hasHeaders = messages.some(({ headers }) => Object.keys(headers ?? {}).length > 0);
  return [
    toArray(messages.map((each) => toJson(each.payload))),
    toColumn(messages.map((each) => each.key)),
    toColumn(messages.map((each) => each.group)),
    hasHeaders ? toArray(messages.map((each) => toJson(each.headers ?? {}))) : null,
  ];
}

function enqueued(rows: Row[]): Enqueued[] {
  return rows.map((row) => ({
    id: BigInt(String(row["id"])),
    duplicate: row["duplicate"] as boolean,
    state: row["state"] as string,
  }));
}

/** Leases up to `limit` due messages, or returns undefined. Commit before you deliver. */
export async function claim(
  db: Db,
  queue: string,
  owner: string,
  limit = 1,
  leaseMs?: number,
): Promise<Lease | undefined> {
  const rows = await db.run(statements.claim, [queue, owner, String(limit), toInterval(leaseMs)]);
  const first = rows[0];
  if (first === undefined) return undefined;
  const fence = BigInt(String(first["fence"]));
  const deliveries = rows.map((row) => ({
    id: BigInt(String(row["id"])),
    queue,
    key: row["key"] as string | null,
    group: row["group"] as string | null,
    text: row["payload"] as string,
    headers: JSON.parse(row["headers"] as string) as Record<string, unknown>,
    createdAt: new Date(Number(row["created_at_us"]) / 1000),
    attemptNo: Number(row["attempt_no"]),
    tries: Number(row["tries"]),
    inDoubt: row["in_doubt"] as boolean,
    fence,
  }));
  return new Lease(String(first["token"]), fence, Number(first["expires_in_ms"]), deliveries);
}

/** Extends a live lease to `leaseMs` from now. */
export async function renew(db: Db, token: string, leaseMs: number): Promise<void> {
  await db.run(statements.renew, [token, toInterval(leaseMs)]);
}

/** Records that the transport calls of these messages are about to start. */
export async function begin(db: Db, token: string, ids: readonly bigint[]): Promise<void> {
  await db.run(statements.begin, [token, toArray(ids.map(String))]);
}

/** Records outcomes. A repeat with the same token returns what was recorded. */
export async function settle(
  db: Db,
  token: string,
  reports: readonly Report[],
): Promise<Recorded[]> {
  const delays = reports.map((each) => ("delayMs" in each ? toInterval(each.delayMs) : null));
  const rows = await db.run(statements.settle, [token, ...reported(reports), toColumn(delays)]);
  return rows.map((row) => ({
    id: BigInt(String(row["id"])),
    attemptNo: Number(row["attempt_no"]),
    outcome: row["outcome"] as string,
    state: row["state"] as string,
    repeated: row["repeated"] as boolean,
  }));
}

/** Records results that came after the lease had ended, as evidence. */
export async function recordLate(
  db: Db,
  token: string,
  reports: readonly Report[],
): Promise<bigint[]> {
  return ids(await db.run(statements.recordLate, [token, ...reported(reports)]));
}

/** Releases the messages of a lease that have not begun. */
export async function release(db: Db, token: string): Promise<bigint[]> {
  return ids(await db.run(statements.release, [token]));
}

function reported(reports: readonly Report[]): (string | null)[] {
  const isAllDelivered = reports.every((each) => each.outcome === "delivered");
  const text = (name: "code" | "detail") =>
    toColumn(reports.map((each) => (each as { code?: string; detail?: string })[name]));
  const result = (each: Report) =>
    "result" in each && each.result !== undefined ? toJson(each.result) : null;
  return [
    toArray(reports.map((each) => String(each.id))),
    isAllDelivered ? null : toArray(reports.map((each) => each.outcome)),
    text("code"),
    text("detail"),
    toColumn(reports.map(result)),
  ];
}

function ids(rows: Row[]): bigint[] {
  const listed = (rows[0]?.["ids"] as string | null) ?? "[]";
  return listed.match(/\d+/g)?.map(BigInt) ?? [];
}
