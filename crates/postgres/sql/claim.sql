-- One claim as one row: $1 lane, $2 owner, $3 limit, $4 ttl, $5 where to start looking.
-- A row of fourteen columns per message costs the server more than the claim itself; so what every
-- message has travels in arrays, and the documents as lists to be put in brackets.
SELECT (array_agg(token))[1] AS token, min(fence) AS fence, min(claimed_at) AS claimed_at, min(expires_at) AS expires_at,
       min(scan_from) AS scan_from, array_agg(id) AS ids,
       CASE WHEN count(key) > 0 THEN array_agg(key) END AS keys,
       CASE WHEN count("group") > 0 THEN array_agg("group") END AS groups,
       string_agg(payload::text, ',') AS payloads,
       CASE WHEN bool_or(headers <> '{}') THEN string_agg(headers::text, ',') END AS headers,
       array_agg(created_at) AS created_at, array_agg(attempt_no) AS attempt_nos, array_agg(tries) AS tries,
       CASE WHEN bool_or(in_doubt) THEN array_agg(in_doubt) END AS in_doubt
    FROM consign.claim($1, $2, $3, $4, $5)
