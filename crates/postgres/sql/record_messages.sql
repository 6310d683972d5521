-- Messages ($1 bigint[]). Primary key.
SELECT id, queue, key, "group", payload, headers, created_at, expires_at FROM consign.message WHERE id = ANY ($1) AND id BETWEEN consign.least_id($1) AND consign.greatest_id($1)
