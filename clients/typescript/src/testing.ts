// For tests of programs that enqueue.

import { isDeepStrictEqual } from "node:util";

import type { Db } from "./db.js";
import { find } from "./statements.js";

export interface Found {
  id: bigint;
  key: string | null;
  group: string | null;
  payload: unknown;
  headers: unknown;
}

export interface Expected {
  payload?: unknown;
  key?: string;
  group?: string | null;
  headers?: unknown;
  /** How many there are like this; 1 by default. */
  count?: number;
}

/** The messages of a queue that this transaction sees, oldest first. Needs a reading role. */
export async function enqueuedIn(db: Db, queue: string): Promise<Found[]> {
  const rows = await db.run(find, [queue, null]);
  return rows.map((row) => ({
    id: BigInt(String(row["id"])),
    key: row["key"] as string | null,
    group: row["group"] as string | null,
    payload: JSON.parse(row["payload"] as string) as unknown,
    headers: JSON.parse(row["headers"] as string) as unknown,
  }));
}

/**
 * Asserts that messages like this were enqueued, and returns them. Objects may have more members
 * than the expected ones. Uncommitted messages of this transaction count, those of others do not.
 */
export async function assertEnqueued(db: Db, queue: string, expected: Expected): Promise<Found[]> {
  const { count = 1, ...wanted } = expected;
  const found = await enqueuedIn(db, queue);
  const names = Object.keys(wanted) as (keyof typeof wanted)[];
  const matching = found.filter((each) => names.every((name) => contains(each[name], wanted[name])));
  if (matching.length !== count) {
    const listed = found.slice(-20).map((each) => `\n  ${JSON.stringify(each.payload)}`);
    throw new Error(
      `${matching.length} messages in queue ${queue} are like ${JSON.stringify(wanted)}, ` +
        `expected ${count}; the queue has${listed.join("") || " nothing"}`,
    );
  }
  return matching;
}

function contains(value: unknown, expected: unknown): boolean {
  const isObject = (each: unknown): each is Record<string, unknown> =>
    typeof each === "object" && each !== null && !Array.isArray(each);
  if (!isObject(value) || !isObject(expected)) return isDeepStrictEqual(value, expected);
  return Object.keys(expected).every((name) => contains(value[name], expected[name]));
}
