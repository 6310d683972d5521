"""The SQL that the clients run. Every parameter is text or NULL, so that drivers agree.

clients/vectors.json has the same statements; the tests compare them.
"""

_MESSAGE = (
    "CAST($1 AS text), CAST($2 AS text)::jsonb{a}, CAST($3 AS text){t}, CAST($4 AS text){t}, "
    "{h}, coalesce(CAST($6 AS text), '0')::interval, CAST($7 AS text)::timestamptz"
)

ENQUEUE = (
    "SELECT consign.enqueue("
    + _MESSAGE.format(a="", t="", h="coalesce(CAST($5 AS text), '{}')::jsonb")
    + ")::text AS id"
)
ENQUEUE_MANY = (
    "SELECT id::text AS id, duplicate, state FROM consign.enqueue_many("
    + _MESSAGE.format(a="[]", t="::text[]", h="CAST($5 AS text)::jsonb[]")
    + ")"
)
ENQUEUE_MIXED = (
    "SELECT id::text AS id, duplicate, state FROM consign.enqueue_mixed("
    "CAST($1 AS text)::text[], CAST($2 AS text)::jsonb[], CAST($3 AS text)::text[], "
    "CAST($4 AS text)::text[], CAST($5 AS text)::jsonb[], CAST($6 AS text)::interval[], "
    "CAST($7 AS text)::timestamptz[])"
)
CLAIM = (
    "SELECT token::text AS token, fence::text AS fence, "
    "((extract(epoch FROM expires_at - claimed_at) * 1000)::bigint)::text AS expires_in_ms, "
    'id::text AS id, key, "group", payload::text AS payload, headers::text AS headers, '
    "((extract(epoch FROM created_at) * 1000000)::bigint)::text AS created_at_us, "
    "attempt_no, tries, in_doubt "
    "FROM consign.claim(CAST($1 AS text), CAST($2 AS text), CAST($3 AS text)::int, "
    "CAST($4 AS text)::interval)"
)
RENEW = "SELECT consign.renew(CAST($1 AS text)::uuid, CAST($2 AS text)::interval)::text AS expires_at"
BEGIN = "SELECT consign.begin(CAST($1 AS text)::uuid, CAST($2 AS text)::bigint[])::text AS begun"
SETTLE = (
    "SELECT id::text AS id, attempt_no, outcome, state, repeated "
    "FROM consign.settle(CAST($1 AS text)::uuid, CAST($2 AS text)::bigint[], "
    "CAST($3 AS text)::text[], CAST($4 AS text)::text[], CAST($5 AS text)::text[], "
    "CAST($6 AS text)::jsonb[], CAST($7 AS text)::interval[])"
)
RECORD_LATE = (
    "SELECT array_to_json(consign.record_late(CAST($1 AS text)::uuid, CAST($2 AS text)::bigint[], "
    "CAST($3 AS text)::text[], CAST($4 AS text)::text[], CAST($5 AS text)::text[], "
    "CAST($6 AS text)::jsonb[]))::text AS ids"
)
RELEASE = "SELECT array_to_json(consign.release(CAST($1 AS text)::uuid))::text AS ids"
REGISTER_IDLE = (
    "SELECT (extract(epoch FROM until) * 1000)::text AS until_ms, registered "
    "FROM consign.register_idle(CAST($1 AS text), CAST($2 AS text)::uuid, CAST($3 AS text)::interval)"
)
LOOK = (
    "SELECT (extract(epoch FROM until) * 1000)::text AS until_ms, committing::text AS committing "
    "FROM consign.look(CAST($1 AS text), CAST($2 AS text)::text[])"
)
LISTEN = "LISTEN consign"
FIND = (
    "SELECT id::text AS id, key, \"group\", payload::text AS payload, headers::text AS headers "
    "FROM consign.message WHERE queue = CAST($1 AS text) "
    "AND key IS NOT DISTINCT FROM coalesce(CAST($2 AS text), key) ORDER BY id"
)
