// For Drizzle over pg or postgres.js.

import { sql, type SQL } from "drizzle-orm";

import { fromQuery, type Db } from "./db.js";

interface DrizzleLike {
  execute(query: SQL): PromiseLike<unknown>;
}

/** A transaction, or the database, of Drizzle. */
export function fromDrizzle(db: DrizzleLike): Db {
  return fromQuery(async (statement, parameters) => {
    const parts = statement.split(/\$(\d+)/).map((part, index) => {
      return index % 2 === 0 ? sql.raw(part) : sql`${parameters[Number(part) - 1] ?? null}`;
    });
    const result = await db.execute(sql.join(parts));
    return Array.isArray(result) ? result : (result as { rows: unknown[] }).rows;
  });
}
