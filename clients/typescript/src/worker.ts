// A worker: claims, renews in the background, settles in batches, and stops cleanly.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

import type { Db } from "./db.js";
import { toInterval, toJson } from "./encoding.js";
import { ConsignError, LeaseLost, Unavailable } from "./errors.js";
import { HttpClient } from "./http.js";
import type { Delivery, Lease, Outcome, Recorded, Report } from "./model.js";
import * as sql from "./sql.js";
import * as statements from "./statements.js";

const IDLE_MS_MAX = 5_000;
const POLL_MS = 500;
const PAUSE_MS_MAX = 10_000;
const SETTLE_TRIES_MAX = 5;

export type Handler = (delivery: Delivery) => Promise<Outcome | void> | Outcome | void;

/** Where a worker claims and settles: a database or a server. */
export interface Source {
  claim(queue: string, owner: string, limit: number, leaseMs?: number): Promise<Lease | undefined>;
  renew(token: string, leaseMs: number): Promise<void>;
  settle(token: string, reports: readonly Report[]): Promise<Recorded[]>;
  recordLate(token: string, reports: readonly Report[]): Promise<bigint[]>;
  release(token: string): Promise<bigint[]>;
  /** Resolves when there may be something to claim, or `stop` is aborted. */
  rest(queue: string, stop: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** Calls `notified` for each notification of channel `consign`, until the result is called. */
export type Listen = (notified: () => void) => Promise<() => Promise<void>>;

/**
 * The functions of schema `consign`, over a pool. With `listen` a commit wakes the worker;
 * without, it looks twice a second.
 */
export function sqlSource(pool: Db, listen?: Listen): Source {
  const worker = randomUUID();
  let wake = () => {};
  let unlisten: (() => Promise<void>) | undefined;
  const look = async (queue: string): Promise<number> => {
    if (listen === undefined) return POLL_MS;
    unlisten ??= await listen(() => wake());
    await pool.run(statements.registerIdle, [queue, worker, toInterval(IDLE_MS_MAX)]);
    // A producer may have committed just before the registration: the look finds it.
    const [row] = await pool.run(statements.look, [queue, null]);
    if (![null, "{}"].includes(row?.["committing"] as string | null)) return 10;
    const until = row?.["until_ms"];
    return typeof until === "string" ? Math.min(Math.max(Number(until), 0), IDLE_MS_MAX) : IDLE_MS_MAX;
  };
  return {
    claim: (queue, owner, limit, leaseMs) => sql.claim(pool, queue, owner, limit, leaseMs),
    renew: (token, leaseMs) => sql.renew(pool, token, leaseMs),
    settle: (token, reports) => sql.settle(pool, token, reports),
    recordLate: (token, reports) => sql.recordLate(pool, token, reports),
    release: (token) => sql.release(pool, token),
    async rest(queue, stop) {
      let isWoken = false;
      let woken = () => {
        isWoken = true;
      };
      wake = () => woken();
      const ms = await look(queue);
      if (isWoken || stop.aborted) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        woken = () => {
          clearTimeout(timer);
          stop.removeEventListener("abort", woken);
          resolve();
        };
        stop.addEventListener("abort", woken, { once: true });
      });
    },
    async close() {
      await unlisten?.();
      unlisten = undefined;
    },
  };
}

interface PgListener {
  connect(): Promise<unknown>;
  query(text: string): Promise<unknown>;
  on(event: string, listener: (...values: unknown[]) => void): unknown;
  end(): Promise<void>;
}

/** Listens on a connection of its own: `listenPg(() => new pg.Client(url))`. */
export function listenPg(open: () => PgListener): Listen {
  return async (notified) => {
    const client = open();
    // A broken connection costs wake-ups, not messages: the worker still looks every few seconds.
    client.on("error", () => {});
    client.on("notification", notified);
    await client.connect();
    await client.query(statements.listen);
    return () => client.end();
  };
}

interface PostgresListener {
  listen(channel: string, notified: () => void): Promise<{ unlisten(): Promise<void> }>;
}

/** Listens by postgres.js: `listenPostgres(sql)`. */
export function listenPostgres(client: PostgresListener): Listen {
  return async (notified) => {
    const listening = await client.listen("consign", notified);
    return () => listening.unlisten();
  };
}

/** A server, which waits for something to claim by itself. */
function httpSource(client: HttpClient): Source {
  let isIdle = false;
  return {
    // A short wait, so that a stop is soon noticed.
    claim: (queue, owner, limit, leaseMs) =>
      client.claim(queue, owner, limit, leaseMs, isIdle ? 1_000 : undefined),
    renew: (token, leaseMs) => client.renew(token, leaseMs),
    settle: (token, reports) => client.settle(token, reports),
    recordLate: (token, reports) => client.recordLate(token, reports),
    release: (token) => client.release(token),
    rest: async () => {
      isIdle = true;
    },
    close: async () => {},
  };
}

export interface WorkerOptions {
  /** How many messages are claimed at once. */
  batch?: number;
  /** How many handlers run at once. */
  concurrency?: number;
  /** The length of a lease; by default that of the queue's policy. */
  leaseMs?: number;
  /** A name for display. */
  owner?: string;
  /** How long a finished message waits for others to be settled with. */
  settleEveryMs?: number;
  /** Receives what a worker survives; by default `console.warn`. */
  warn?: (text: string, error: unknown) => void;
}

/**
 * Works a queue: calls `handler` with each message and reports what it returns.
 *
 * A handler that returns nothing delivered the message; one that throws is retried by the queue's
 * schedule. After SIGTERM, SIGINT or `stop()` the running handlers finish, their outcomes are
 * settled, and the rest of the lease is released.
 */
export class Worker {
  readonly #source: Source;
  readonly #options: Required<Omit<WorkerOptions, "leaseMs">> & { leaseMs: number | undefined };
  readonly #stopping = new AbortController();

  constructor(
    source: HttpClient | Source,
    readonly queue: string,
    readonly handler: Handler,
    options: WorkerOptions = {},
  ) {
    this.#source = source instanceof HttpClient ? httpSource(source) : source;
    this.#options = {
      batch: options.batch ?? 10,
      concurrency: options.concurrency ?? 1,
      leaseMs: options.leaseMs,
      owner: options.owner ?? `node@${hostname()}:${process.pid}`,
      settleEveryMs: options.settleEveryMs ?? 1_000,
      warn: options.warn ?? ((text, error) => console.warn(`consign: ${text}:`, error)),
    };
  }

  /** Ends `run` after the handlers that are running. */
  stop(): void {
    this.#stopping.abort();
  }

  /** Works until stopped, or until the queue has nothing to claim. */
  async run(options: { untilEmpty?: boolean } = {}): Promise<void> {
    const stop = () => this.stop();
    process.once("SIGTERM", stop).once("SIGINT", stop);
    let failures = 0;
    try {
      while (!this.#stopping.signal.aborted) {
        try {
          const { owner, batch, leaseMs } = this.#options;
          const lease = await this.#source.claim(this.queue, owner, batch, leaseMs);
          if (lease !== undefined) await this.#work(lease);
          else if (options.untilEmpty === true) return;
          else await this.#source.rest(this.queue, this.#stopping.signal);
          failures = 0;
        } catch (error) {
          if (isFinal(error)) throw error;
          this.#options.warn(`claiming from queue ${this.queue} failed`, error);
          await pause(Math.min(PAUSE_MS_MAX, 100 * 2 ** failures), this.#stopping.signal);
          failures = Math.min(failures + 1, 10);
        }
      }
    } finally {
      process.off("SIGTERM", stop).off("SIGINT", stop);
      await this.#source.close();
    }
  }

  async #work(lease: Lease): Promise<void> {
    const renewal = this.#keep(lease);
    const waiting = [...lease.deliveries].reverse();
    const running = new Set<Promise<void>>();
    let reports: Report[] = [];
    const { concurrency, settleEveryMs } = this.#options;
    let settledAt = Date.now();
    let tick = pause(settleEveryMs);
    const mayBegin = () => !this.#stopping.signal.aborted && !lease.isLost;
    try {
      while (running.size > 0 || (waiting.length > 0 && mayBegin())) {
        while (waiting.length > 0 && running.size < concurrency && mayBegin()) {
          const task: Promise<void> = this.#handle(waiting.pop()!).then((report) => {
            reports.push(report);
            running.delete(task);
          });
          running.add(task);
        }
        await Promise.race([...running, tick]);
        if (Date.now() - settledAt < settleEveryMs) continue;
        const due = reports;
        reports = [];
        if (due.length > 0) await this.#settle(lease, due);
        settledAt = Date.now();
        tick = pause(settleEveryMs);
      }
      if (reports.length > 0) await this.#settle(lease, reports);
      if (waiting.length > 0 && !lease.isLost) await this.#source.release(lease.token);
    } catch (error) {
      // The lease ended before its rest was released.
      if (!(error instanceof LeaseLost)) throw error;
    } finally {
      renewal();
    }
  }

  async #handle(delivery: Delivery): Promise<Report> {
    try {
      const outcome: Outcome = (await this.handler(delivery)) ?? { outcome: "delivered" };
      // A result that is no JSON is the handler's failure, not that of the whole settle.
      if ("result" in outcome && outcome.result !== undefined) toJson(outcome.result);
      return { ...outcome, id: delivery.id };
    } catch (error) {
      this.#options.warn(`the handler failed for message ${delivery.id}`, error);
      return { id: delivery.id, outcome: "retry", code: "handler_failed", detail: String(error) };
    }
  }

  async #settle(lease: Lease, reports: Report[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#source.settle(lease.token, reports);
        return;
      } catch (error) {
        if (error instanceof LeaseLost) {
          lease.markLost();
          await this.#source.recordLate(lease.token, reports);
          this.#options.warn("the lease is lost; results were recorded as late", error);
          return;
        }
        if (isFinal(error)) {
          // The messages come back when the lease expires.
          this.#options.warn("a settle was rejected", error);
          return;
        }
        if (attempt === SETTLE_TRIES_MAX) throw error;
        this.#options.warn("a settle failed and is repeated", error);
        await pause(100 * 2 ** attempt);
      }
    }
  }

  /** Renews a lease at a third of its length until the result is called. */
  #keep(lease: Lease): () => void {
    const ms = lease.expiresInMs;
    let ends = Date.now() + ms;
    let isRenewing = false;
    const timer = setInterval(async () => {
      if (isRenewing) return;
      isRenewing = true;
      const began = Date.now();
      try {
        await this.#source.renew(lease.token, ms);
        ends = began + ms;
      } catch (error) {
        if (error instanceof LeaseLost || Date.now() >= ends) lease.markLost();
        else this.#options.warn("a renewal failed", error);
      } finally {
        isRenewing = false;
      }
    }, ms / 3);
    return () => clearInterval(timer);
  }
}

/** Whether a repeat of the call cannot succeed. */
function isFinal(error: unknown): boolean {
  return error instanceof ConsignError && !(error instanceof Unavailable);
}

function pause(ms: number, stop?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    if (stop === undefined) timer.unref();
    stop?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
