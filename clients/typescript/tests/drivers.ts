// Every driver behind one face: run in a transaction that commits, or is rolled back by an error.

import { PrismaPg } from "@prisma/adapter-pg";
import prisma from "@prisma/client";
import { drizzle as drizzleOverPg } from "drizzle-orm/node-postgres";
import { drizzle as drizzleOverPostgres } from "drizzle-orm/postgres-js";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";

import { fromPg, fromPostgres, fromPrisma, type Db } from "../src/index.js";
import { fromDrizzle } from "../src/drizzle.js";
import { fromKysely } from "../src/kysely.js";
import { openPool } from "./support.js";

export type Transact = (url: string, use: (db: Db) => Promise<void>) => Promise<void>;

export const drivers: Record<string, Transact> = {
  async pg(url, use) {
    const client = new pg.Client(url);
    client.on("error", () => {});
    await client.connect();
    try {
      await client.query("BEGIN");
      await use(fromPg(client));
      await client.query("COMMIT");
    } finally {
      await client.end();
    }
  },
  async postgres(url, use) {
    const sql = postgres(url, { max: 1 });
    try {
      await sql.begin((transaction) => use(fromPostgres(transaction)));
    } finally {
      await sql.end();
    }
  },
  async prisma(url, use) {
    const client = new prisma.PrismaClient({ adapter: new PrismaPg(openPool(url)) });
    try {
      await client.$transaction((transaction) => use(fromPrisma(transaction)));
    } finally {
      await client.$disconnect();
    }
  },
  async "drizzle over pg"(url, use) {
    const pool = openPool(url);
    try {
      await drizzleOverPg(pool).transaction((transaction) => use(fromDrizzle(transaction)));
    } finally {
      await pool.end();
    }
  },
  async "drizzle over postgres"(url, use) {
    const sql = postgres(url, { max: 1 });
    try {
      await drizzleOverPostgres(sql).transaction((transaction) => use(fromDrizzle(transaction)));
    } finally {
      await sql.end();
    }
  },
  async kysely(url, use) {
    const pool = openPool(url);
    const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) });
    try {
      await db.transaction().execute((transaction) => use(fromKysely(transaction)));
    } finally {
      await db.destroy();
    }
  },
};
