// What goes in and what comes out.

export interface EnqueueOptions {
  key?: string | undefined;
  group?: string | undefined;
  headers?: Record<string, unknown> | undefined;
  delayMs?: number | undefined;
  /** When it is due; text is an instant with its offset. */
  at?: Date | string | undefined;
}

/** A message to enqueue. `queue`, `delayMs` and `at` count in `enqueueMixed` only. */
export interface Message extends EnqueueOptions {
  payload: unknown;
  queue?: string;
}

/** One enqueued message. `duplicate`: its key named the message before this call. */
export interface Enqueued {
  id: bigint;
  duplicate: boolean;
  state: string;
}

/** What a handler returns; nothing means delivered. */
export type Outcome =
  | { outcome: "delivered"; result?: unknown }
  | { outcome: "retry"; code?: string; detail?: string; delayMs?: number }
  | { outcome: "dead"; code?: string; detail?: string }
  | { outcome: "uncertain"; code?: string; detail?: string };

/** The outcome of one message of a lease. */
export type Report = { id: bigint } & Outcome;

/** What a settle recorded. `repeated`: it had been recorded before. */
export interface Recorded {
  id: bigint;
  attemptNo: number;
  outcome: string;
  state: string;
  repeated: boolean;
}

export interface DeliveryFields {
  id: bigint;
  queue: string;
  key: string | null;
  group: string | null;
  text: string;
  headers: Record<string, unknown>;
  createdAt: Date;
  attemptNo: number;
  tries: number;
  inDoubt: boolean;
  fence: bigint;
}

/** A leased message. Pass `fence` to receivers that can reject older ones. */
export class Delivery implements DeliveryFields {
  readonly id!: bigint;
  readonly queue!: string;
  readonly key!: string | null;
  readonly group!: string | null;
  /** The payload to the last digit. */
  readonly text!: string;
  readonly headers!: Record<string, unknown>;
  readonly createdAt!: Date;
  readonly attemptNo!: number;
  readonly tries!: number;
  readonly inDoubt!: boolean;
  readonly fence!: bigint;
  /** Aborted when the lease is known to be lost: another worker may have the message. */
  readonly signal: AbortSignal;

  constructor(fields: DeliveryFields, signal: AbortSignal) {
    Object.assign(this, fields);
    this.signal = signal;
  }

  /** The payload by `JSON.parse`, which rounds numbers; parse `text` where that matters. */
  get payload(): unknown {
    return JSON.parse(this.text);
  }

  /** The same for every attempt: what receivers detect repeats by. */
  get idempotencyKey(): string {
    return `${this.queue}:${this.key ?? this.id}`;
  }
}

/** Leased messages. `token` is the permission to settle them: never log or share it. */
export class Lease {
  readonly deliveries: Delivery[];
  readonly #lost = new AbortController();

  constructor(
    readonly token: string,
    readonly fence: bigint,
    readonly expiresInMs: number,
    deliveries: DeliveryFields[],
  ) {
    this.deliveries = deliveries.map((each) => new Delivery(each, this.#lost.signal));
    Object.defineProperty(this, "token", { enumerable: false });
  }

  get isLost(): boolean {
    return this.#lost.signal.aborted;
  }

  /** Records that the lease is lost, and aborts the signal of its deliveries. */
  markLost(): void {
    this.#lost.abort(new Error("the lease is lost"));
  }
}
