// For receivers of webhooks: verify signatures, reject older fences, recognise repetitions.

import {
  createHmac,
  createPublicKey,
  timingSafeEqual,
  verify as verifySignature,
  type KeyObject,
} from "node:crypto";

import type { Db } from "./db.js";

export const TOLERANCE_SECONDS = 300;

/** In the receiver's own database. One table per sender: fences of several databases do not compare. */
export const createTableStatement =
  "CREATE TABLE IF NOT EXISTS consign_received (webhook_id text PRIMARY KEY, " +
  "fence bigint NOT NULL, times bigint NOT NULL, received_at timestamptz NOT NULL)";
export const recordStatement =
  "INSERT INTO consign_received AS r (webhook_id, fence, times, received_at) " +
  "VALUES (CAST($1 AS text), CAST($2 AS text)::bigint, 1, now()) " +
  "ON CONFLICT (webhook_id) DO UPDATE SET fence = excluded.fence, times = r.times + 1 " +
  "WHERE r.fence <= excluded.fence RETURNING times::text AS times";

/** The request is not what a holder of the key sent just now. Answer 401. */
export class Rejected extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = "Rejected";
  }
}

/** A request whose signature is right. `fence` is undefined if the sender is not consign. */
export interface Webhook {
  id: string;
  timestamp: number;
  messageId: bigint | undefined;
  attemptNo: number | undefined;
  fence: bigint | undefined;
  body: Buffer;
}

/** Headers of a request: those of `fetch`, or of `node:http`. */
export type HeaderSource = Headers | Record<string, string | string[] | undefined>;

type Key = { version: "v1"; secret: Buffer } | { version: "v1a"; key: KeyObject };

/**
 * Verifies Standard Webhooks signatures by shared secrets, `whsec_…`, and public ed25519 keys,
 * `whpk_…`. Several, separated by blanks or in a list, allow a rotation.
 */
export class Verifier {
  readonly #keys: Key[];

  constructor(
    keys: string | readonly string[],
    readonly toleranceSeconds: number = TOLERANCE_SECONDS,
  ) {
    const listed = typeof keys === "string" ? keys.split(/\s+/).filter(Boolean) : keys;
    if (listed.length === 0) throw new TypeError("there is no key");
    this.#keys = listed.map(parseKey);
  }

  /** Returns the webhook, or throws `Rejected`. `body` is the bytes as they came in. */
  verify(
    headers: HeaderSource,
    body: Uint8Array | string,
    nowSeconds: number = Date.now() / 1000,
  ): Webhook {
    const id = required(headers, "webhook-id");
    const stamp = required(headers, "webhook-timestamp");
    const signatures = required(headers, "webhook-signature").split(" ");
    if (!/^\d+$/.test(stamp)) {
      throw new Rejected("timestamp_invalid", `webhook-timestamp ${stamp} is no number`);
    }
    const bytes = Buffer.from(body);
    const content = Buffer.concat([Buffer.from(`${id}.${stamp}.`), bytes]);
    // Every pair is compared, in constant time each.
    const matches = this.#keys.flatMap((key) => signatures.map((each) => fits(key, content, each)));
    if (!matches.includes(true)) {
      throw new Rejected("signature_invalid", "no signature was made with a known key");
    }
    const age = nowSeconds - Number(stamp);
    if (Math.abs(age) > this.toleranceSeconds) {
      throw new Rejected("timestamp_out_of_tolerance", `signed ${Math.round(age)} seconds ago`);
    }
    const messageId = number(headers, "consign-message-id");
    const attemptNo = number(headers, "consign-attempt");
    return {
      id,
      timestamp: Number(stamp),
      messageId,
      attemptNo: attemptNo === undefined ? undefined : Number(attemptNo),
      fence: number(headers, "consign-fence"),
      body: bytes,
    };
  }
}

/**
 * What a request is to a receiver that recorded it.
 *
 * - `first`: apply it, in the same transaction.
 * - `repeated`: applied before; answer as then, and apply nothing.
 * - `stale`: from a worker that has lost its lease; reject it, for example with 409.
 */
export type Receipt = "first" | "repeated" | "stale";

/** Creates `consign_received` in the receiver's database. */
export async function createTable(db: Db): Promise<void> {
  await db.run(createTableStatement, []);
}

/**
 * Records a request in the caller's transaction, which applies it if it is the first.
 * Of two equal requests at once, the second waits here until the first is committed.
 */
export async function record(db: Db, webhook: Pick<Webhook, "id" | "fence">): Promise<Receipt> {
  const [row] = await db.run(recordStatement, [webhook.id, String(webhook.fence ?? 0n)]);
  if (row === undefined) return "stale";
  return row["times"] === "1" ? "first" : "repeated";
}

function parseKey(text: string): Key {
  const encoded = text.replace(/^whsec_|^whpk_/, "");
  const bytes = Buffer.from(encoded, "base64");
  if (encoded === text) throw new TypeError("a key must start with `whsec_` or `whpk_`");
  if (bytes.toString("base64").replace(/=+$/, "") !== encoded.replace(/=+$/, "")) {
    throw new TypeError("a key is not base64 after its prefix");
  }
  if (text.startsWith("whsec_")) return { version: "v1", secret: bytes };
  if (bytes.length !== 32) throw new TypeError("a `whpk_` key is not of 32 bytes");
  const jwk = { kty: "OKP", crv: "Ed25519", x: bytes.toString("base64url") };
  return { version: "v1a", key: createPublicKey({ key: jwk, format: "jwk" }) };
}

function fits(key: Key, content: Buffer, signature: string): boolean {
  const [version, encoded] = signature.split(",", 2);
  if (version !== key.version) return false;
  const given = Buffer.from(encoded ?? "", "base64");
  if (key.version === "v1a") {
    return given.length === 64 && verifySignature(null, content, key.key, given);
  }
  const expected = createHmac("sha256", key.secret).update(content).digest();
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function header(headers: HeaderSource, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const found = Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1];
  return Array.isArray(found) ? found[0] : found;
}

function required(headers: HeaderSource, name: string): string {
  const value = header(headers, name);
  if (!value) throw new Rejected("header_missing", `the header ${name} is missing`);
  return value;
}

function number(headers: HeaderSource, name: string): bigint | undefined {
  const value = header(headers, name);
  return value !== undefined && /^\d+$/.test(value) ? BigInt(value) : undefined;
}
