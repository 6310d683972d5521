-- Of these messages ($1 ids, $2 and $3 the least and the greatest of them) those that match what no index has:
-- $4 how many, $5 queue, $6 key, $7 beginning of the key, $8 group, $9 correlation id, $10 headers, $11 since, $12 until.
SELECT m.id FROM consign.message m
    WHERE m.id = ANY ($1::bigint[]) AND m.id BETWEEN $2 AND $3
        AND ($5::text IS NULL OR m.queue = $5) AND ($6::text IS NULL OR m.key = $6)
        AND ($7::text IS NULL OR starts_with(m.key, $7)) AND ($8::text IS NULL OR m."group" = $8)
        AND ($9::text IS NULL OR m.headers->'correlation_id' = to_jsonb($9::text))
        AND ($10::jsonb IS NULL OR m.headers @> $10)
        AND ($11::timestamptz IS NULL OR m.created_at >= $11) AND ($12::timestamptz IS NULL OR m.created_at < $12)
    ORDER BY m.id DESC LIMIT $4
