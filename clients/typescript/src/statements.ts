// The SQL that the clients run. Every parameter is text or null, so that drivers agree.
// clients/vectors.json has the same statements; the tests compare them.

export const enqueue =
  "SELECT consign.enqueue(CAST($1 AS text), CAST($2 AS text)::jsonb, CAST($3 AS text), " +
  "CAST($4 AS text), coalesce(CAST($5 AS text), '{}')::jsonb, coalesce(CAST($6 AS text), " +
  "'0')::interval, CAST($7 AS text)::timestamptz)::text AS id";
export const enqueueMany =
  "SELECT id::text AS id, duplicate, state FROM consign.enqueue_many(CAST($1 AS text), " +
  "CAST($2 AS text)::jsonb[], CAST($3 AS text)::text[], CAST($4 AS text)::text[], CAST($5 " +
  "AS text)::jsonb[], coalesce(CAST($6 AS text), '0')::interval, CAST($7 AS " +
  "text)::timestamptz)";
export const enqueueMixed =
  "SELECT id::text AS id, duplicate, state FROM consign.enqueue_mixed(CAST($1 AS " +
  "text)::text[], CAST($2 AS text)::jsonb[], CAST($3 AS text)::text[], CAST($4 AS " +
  "text)::text[], CAST($5 AS text)::jsonb[], CAST($6 AS text)::interval[], CAST($7 AS " +
  "text)::timestamptz[])";
export const claim =
  "SELECT token::text AS token, fence::text AS fence, ((extract(epoch FROM expires_at - " +
  'claimed_at) * 1000)::bigint)::text AS expires_in_ms, id::text AS id, key, "group", ' +
  "payload::text AS payload, headers::text AS headers, ((extract(epoch FROM created_at) * " +
  "1000000)::bigint)::text AS created_at_us, attempt_no, tries, in_doubt FROM " +
  "consign.claim(CAST($1 AS text), CAST($2 AS text), CAST($3 AS text)::int, CAST($4 AS " +
  "text)::interval)";
export const renew =
  "SELECT consign.renew(CAST($1 AS text)::uuid, CAST($2 AS text)::interval)::text AS " +
  "expires_at";
export const begin = "SELECT consign.begin(CAST($1 AS text)::uuid, CAST($2 AS text)::bigint[])::text AS begun";
export const settle =
  "SELECT id::text AS id, attempt_no, outcome, state, repeated FROM consign.settle(CAST($1 " +
  "AS text)::uuid, CAST($2 AS text)::bigint[], CAST($3 AS text)::text[], CAST($4 AS " +
  "text)::text[], CAST($5 AS text)::text[], CAST($6 AS text)::jsonb[], CAST($7 AS " +
  "text)::interval[])";
export const recordLate =
  "SELECT array_to_json(consign.record_late(CAST($1 AS text)::uuid, CAST($2 AS " +
  "text)::bigint[], CAST($3 AS text)::text[], CAST($4 AS text)::text[], CAST($5 AS " +
  "text)::text[], CAST($6 AS text)::jsonb[]))::text AS ids";
export const release = "SELECT array_to_json(consign.release(CAST($1 AS text)::uuid))::text AS ids";
export const registerIdle =
  "SELECT (extract(epoch FROM until) * 1000)::text AS until_ms, registered FROM " +
  "consign.register_idle(CAST($1 AS text), CAST($2 AS text)::uuid, CAST($3 AS " +
  "text)::interval)";
export const look =
  "SELECT (extract(epoch FROM until) * 1000)::text AS until_ms, committing::text AS " +
  "committing FROM consign.look(CAST($1 AS text), CAST($2 AS text)::text[])";
export const listen = "LISTEN consign";
export const find =
  'SELECT id::text AS id, key, "group", payload::text AS payload, headers::text AS headers ' +
  "FROM consign.message WHERE queue = CAST($1 AS text) AND key IS NOT DISTINCT FROM " +
  "coalesce(CAST($2 AS text), key) ORDER BY id";
