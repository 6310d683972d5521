// For Kysely on PostgreSQL.

import { CompiledQuery } from "kysely";

import { fromQuery, type Db } from "./db.js";

interface KyselyLike {
  executeQuery<R>(query: CompiledQuery<R>): Promise<{ rows: R[] }>;
}

/** A transaction, or the database, of Kysely. */
export function fromKysely(db: KyselyLike): Db {
  return fromQuery(async (statement, parameters) => {
    return (await db.executeQuery(CompiledQuery.raw(statement, parameters))).rows;
  });
}
