// One way to run a statement, whatever the driver. The caller's transaction is never ended.

import { fromDriver } from "./errors.js";

export type Row = Record<string, unknown>;

/** A transaction or a pool of any driver: `fromPg(client)` and its like make one. */
export interface Db {
  run(statement: string, parameters: readonly (string | null)[]): Promise<Row[]>;
}

/** Makes a `Db` of a function that runs a statement with `$1` parameters. */
export function fromQuery(
  query: (statement: string, parameters: (string | null)[]) => Promise<readonly unknown[]>,
): Db {
  return {
    async run(statement, parameters) {
      try {
        return [...(await query(statement, [...parameters]))] as Row[];
      } catch (error) {
        throw fromDriver(error);
      }
    },
  };
}

interface PgLike {
  query(statement: string, parameters: unknown[]): Promise<{ rows: unknown[] }>;
}

/** A client in its transaction, or a pool, of `pg`. */
export function fromPg(client: PgLike): Db {
  return fromQuery(async (statement, parameters) => {
    return (await client.query(statement, parameters)).rows;
  });
}

interface PostgresLike {
  unsafe(statement: string, parameters?: any[]): PromiseLike<readonly unknown[]>;
}

/** The `sql` of `begin`, or that of the program, of postgres.js. */
export function fromPostgres(sql: PostgresLike): Db {
  return fromQuery(async (statement, parameters) => await sql.unsafe(statement, parameters));
}

interface PrismaLike {
  $queryRawUnsafe(statement: string, ...parameters: any[]): PromiseLike<unknown>;
}

/** The client of an interactive transaction, or that of the program, of Prisma. */
export function fromPrisma(client: PrismaLike): Db {
  return fromQuery(async (statement, parameters) => {
    return (await client.$queryRawUnsafe(statement, ...parameters)) as unknown[];
  });
}
