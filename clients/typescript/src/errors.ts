// The errors of consign, by the codes of docs/errors.md.

export interface ErrorDetails {
  code?: string;
  detail?: Record<string, unknown>;
  outcome?: "not_done" | "unknown";
  status?: number;
  retryAfterMs?: number;
  cause?: unknown;
}

/**
 * A call that consign rejected, or whose outcome is unknown.
 *
 * `code` is stable; the text may change. `detail` has the values that the error names. After the
 * outcome `unknown` repeat the call with the same key or token.
 */
export class ConsignError extends Error {
  readonly code: string;
  readonly detail: Record<string, unknown>;
  readonly outcome: "not_done" | "unknown";
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { cause: details.cause });
    this.name = new.target.name;
    this.code = details.code ?? "error";
    this.detail = details.detail ?? {};
    this.outcome = details.outcome ?? "not_done";
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** The queue does not exist. */
export class UnknownQueue extends ConsignError {}
/** The key names a message with another payload or group. Nothing was enqueued. */
export class KeyConflict extends ConsignError {}
/** The lease expired or the token is unknown. Stop working on its messages. */
export class LeaseLost extends ConsignError {}
/** The lease does not hold these messages. Nothing was written. */
export class NotInLease extends ConsignError {}
/** The payload is larger than the queue's `payload_max_bytes`. */
export class PayloadTooLarge extends ConsignError {}
/** An argument cannot be accepted; the text names it. */
export class InvalidInput extends ConsignError {}
/** The login or the token may not do this. */
export class Forbidden extends ConsignError {}
/** The server or its database cannot answer now; `outcome` shows whether it may have happened. */
export class Unavailable extends ConsignError {}

const SQLSTATES: Record<string, string> = {
  CN001: "unknown_queue",
  CN002: "key_conflict",
  CN003: "lease_lost",
  CN004: "not_in_lease",
  CN005: "payload_too_large",
  CN006: "invalid_input",
};

const CODES: Record<string, typeof ConsignError> = {
  unknown_queue: UnknownQueue,
  key_conflict: KeyConflict,
  lease_lost: LeaseLost,
  not_in_lease: NotInLease,
  payload_too_large: PayloadTooLarge,
  invalid_input: InvalidInput,
  unauthorized: Forbidden,
  scope_missing: Forbidden,
  not_local: Forbidden,
  tenant_bound: Forbidden,
  forbidden: Forbidden,
  rate_limited: Unavailable,
  overloaded: Unavailable,
  locked: Unavailable,
  database_unavailable: Unavailable,
  schema_mismatch: Unavailable,
  request_timeout: Unavailable,
  body_timeout: Unavailable,
};

type Fields = Record<string, unknown>;

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

/** The error of consign that a driver's error carries, or that error. */
export function fromDriver(error: unknown): unknown {
  // Prisma and Drizzle wrap the errors of their drivers.
  const open: unknown[] = [error];
  for (let inner = open.pop(), depth = 0; inner !== undefined && depth < 8; depth++) {
    const found = fields(inner);
    const state = String(found["originalCode"] ?? found["code"] ?? "");
    const code = SQLSTATES[state];
    if (code !== undefined) {
      const text = String(found["originalMessage"] ?? found["message"] ?? code);
      return made(code, text, { detail: parsed(found["detail"]), cause: error });
    }
    open.push(...[fields(found["meta"])["driverAdapterError"], found["cause"]].filter(Boolean));
    inner = open.pop();
  }
  return error;
}

/** The error of an answer of the HTTP API. */
export function fromProblem(
  status: number,
  problem: Fields,
  retryAfterMs: number | undefined,
): ConsignError {
  const { type: _type, title, status: _status, detail, code: given, outcome, ...values } = problem;
  const code = typeof given === "string" ? given : `http_${status}`;
  const isUnknown = outcome === "unknown" || (given === undefined && status >= 500);
  return made(code, String(detail ?? title ?? `HTTP status ${status}`), {
    detail: values,
    outcome: isUnknown ? "unknown" : "not_done",
    status,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

function made(code: string, text: string, details: ErrorDetails): ConsignError {
  const Kind = CODES[code] ?? ((details.status ?? 0) >= 500 ? Unavailable : ConsignError);
  return new Kind(text, { ...details, code });
}

function parsed(detail: unknown): Fields {
  try {
    return typeof detail === "string" ? fields(JSON.parse(detail)) : {};
  } catch {
    return {};
  }
}
