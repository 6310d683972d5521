// The HTTP API, by fetch.

import { elements, members, RawJson, toDocument, toJson, toTime } from "./encoding.js";
import { fromProblem, Unavailable } from "./errors.js";
import {
  Lease,
  type Enqueued,
  type EnqueueOptions,
  type Message,
  type Recorded,
  type Report,
} from "./model.js";

export interface HttpOptions {
  /** A token of `server.tokens`. */
  token?: string;
  /** How long an answer may take; longer than claims wait. */
  timeoutMs?: number;
}

/** A server of consign. */
export class HttpClient {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;

  constructor(url: string, options: HttpOptions = {}) {
    this.#base = new URL(url).href.replace(/\/+$/, "");
    this.#headers = options.token === undefined ? {} : { authorization: `Bearer ${options.token}` };
    this.#timeoutMs = options.timeoutMs ?? 30_000;
  }

  /** Enqueues one message and returns its id; a repeated key returns that of the first. */
  async enqueue(queue: string, payload: unknown, options: EnqueueOptions = {}): Promise<bigint> {
    const path = `/v1/queues/${encodeURIComponent(queue)}/messages`;
    const body = toDocument(fields({ ...options, payload }));
    const answer = await this.#post(path, body, {}, options.key !== undefined);
    return BigInt(members(answer).get("id") ?? "");
  }

  /** Enqueues messages of one queue in one request: all or none. */
  async enqueueMany(
    queue: string,
    messages: readonly Message[],
    options: Pick<EnqueueOptions, "delayMs" | "at"> & { idempotencyKey?: string } = {},
  ): Promise<Enqueued[]> {
    const { idempotencyKey, ...times } = options;
    const own = messages.map((each) => ({ ...times, ...each, queue }));
    return this.enqueueMixed(own, idempotencyKey === undefined ? {} : { idempotencyKey });
  }

  /** The same for messages of several queues and times. */
  async enqueueMixed(
    messages: readonly Message[],
    options: { idempotencyKey?: string } = {},
  ): Promise<Enqueued[]> {
    const documents = messages.map((each) =>
      toDocument([["queue", each.queue ?? "default"], ...fields(each)]),
    );
    const key = options.idempotencyKey;
    const quoted = key?.replaceAll("\\", "\\\\").replaceAll('"', '\\"');
    const headers: Record<string, string> =
      quoted === undefined ? {} : { "idempotency-key": `"${quoted}"` };
    const body = `{"messages":[${documents.join(",")}]}`;
    const answer = await this.#post("/v1/messages", body, headers, key !== undefined);
    return elements(members(answer).get("messages") ?? "[]").map((text) => {
      const each = JSON.parse(text) as Enqueued;
      return { ...each, id: BigInt(members(text).get("id") ?? "") };
    });
  }

  /** Leases up to `limit` due messages; waits up to `waitMs` for the first. */
  async claim(
    queue: string,
    owner: string,
    limit = 1,
    leaseMs?: number,
    waitMs?: number,
  ): Promise<Lease | undefined> {
    const body = toDocument([
      ["queue", queue],
      ["owner", owner],
      ["limit", limit],
      ["ttl_ms", leaseMs],
      ["wait_ms", waitMs],
    ]);
    const answer = await this.#post("/v1/claims", body, {}, true);
    return answer === "" ? undefined : lease(answer);
  }

  /** Extends a live lease to `leaseMs` from now. */
  async renew(token: string, leaseMs: number): Promise<void> {
    await this.#leasePost(token, "renew", toDocument([["ttl_ms", leaseMs]]));
  }

  /** Records that the transport calls of these messages are about to start. */
  async begin(token: string, ids: readonly bigint[]): Promise<void> {
    await this.#leasePost(token, "begin", `{"ids":[${ids.join(",")}]}`);
  }

  /** Records outcomes. A late settle throws `LeaseLost` and is recorded as evidence. */
  async settle(token: string, reports: readonly Report[]): Promise<Recorded[]> {
    const documents = reports.map((each) => {
      const { id, outcome, ...more } = each as Report & Record<string, unknown>;
      return toDocument([
        ["id", new RawJson(String(id))],
        ["outcome", outcome],
        ["code", more["code"]],
        ["detail", more["detail"]],
        ["result", more["result"]],
        ["retry_in_ms", more["delayMs"]],
      ]);
    });
    const body = `{"reports":[${documents.join(",")}]}`;
    const answer = members(await this.#leasePost(token, "settle", body));
    const repeated = answer.get("repeated") === "true";
    return elements(answer.get("recorded") ?? "[]").map((text) => {
      const each = JSON.parse(text) as { attempt_no: number; outcome: string; state: string };
      const id = BigInt(members(text).get("id") ?? "");
      const { attempt_no: attemptNo, outcome, state } = each;
      return { id, attemptNo, outcome, state, repeated };
    });
  }

  /** Does nothing: the server records the reports of a late settle by itself. */
  async recordLate(_token: string, _reports: readonly Report[]): Promise<bigint[]> {
    return [];
  }

  /** Releases the messages of a lease that have not begun. */
  async release(token: string): Promise<bigint[]> {
    const answer = members(await this.#leasePost(token, "release", ""));
    return elements(answer.get("ids") ?? "[]").map(BigInt);
  }

  #leasePost(token: string, action: string, body: string): Promise<string> {
    return this.#post(`/v1/leases/${encodeURIComponent(token)}/${action}`, body, {}, true);
  }

  /** Sends a request, once more if it is repeatable and its connection broke. */
  async #post(
    path: string,
    body: string,
    headers: Record<string, string>,
    isRepeatable: boolean,
  ): Promise<string> {
    try {
      return await this.#send(path, body, headers);
    } catch (error) {
      const isBroken = error instanceof Unavailable && error.status === undefined;
      if (!isRepeatable || !isBroken) throw error;
      return this.#send(path, body, headers);
    }
  }

  async #send(path: string, body: string, headers: Record<string, string>): Promise<string> {
    const type: Record<string, string> = body === "" ? {} : { "content-type": "application/json" };
    let response: Response;
    let answer: string;
    try {
      response = await fetch(this.#base + path, {
        method: "POST",
        headers: { ...this.#headers, ...type, ...headers },
        body: body === "" ? null : body,
        signal: AbortSignal.timeout(this.#timeoutMs),
      });
      answer = await response.text();
    } catch (error) {
      const text = "the connection failed, so that the outcome is unknown";
      throw new Unavailable(text, { code: "connection_broken", outcome: "unknown", cause: error });
    }
    if (response.ok) return answer;
    const after = Number(response.headers.get("retry-after") ?? NaN);
    throw fromProblem(response.status, problem(answer), after >= 0 ? after * 1000 : undefined);
  }
}

function fields(message: Message): [string, unknown][] {
  return [
    // A payload of null is JSON's null, which is not a missing field.
    ["payload", new RawJson(toJson(message.payload))],
    ["key", message.key],
    ["group", message.group],
    ["headers", message.headers],
    ["delay_ms", message.delayMs],
    ["at", toTime(message.at)],
  ];
}

function lease(answer: string): Lease {
  const body = members(answer);
  const fence = BigInt(body.get("fence") ?? "");
  const deliveries = elements(body.get("messages") ?? "[]").map((text) => {
    const message = members(text);
    const read = (name: string): unknown => JSON.parse(message.get(name) ?? "null");
    return {
      id: BigInt(message.get("id") ?? ""),
      queue: read("queue") as string,
      key: read("key") as string | null,
      group: read("group") as string | null,
      text: message.get("payload") ?? "null",
      headers: read("headers") as Record<string, unknown>,
      createdAt: new Date(read("created_at") as string),
      attemptNo: read("attempt_no") as number,
      tries: read("tries") as number,
      inDoubt: read("in_doubt") as boolean,
      fence,
    };
  });
  const token = JSON.parse(body.get("token") ?? '""') as string;
  return new Lease(token, fence, Number(body.get("expires_in_ms")), deliveries);
}

function problem(answer: string): Record<string, unknown> {
  try {
    const read: unknown = JSON.parse(answer);
    return typeof read === "object" && read !== null ? (read as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
