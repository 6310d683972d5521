-- The same along the messages of one case: $3 correlation id.
SELECT id FROM consign.message
    WHERE headers ? 'correlation_id' AND left(headers->>'correlation_id', 200) = left($3::text, 200) COLLATE "C" AND id < $1
    ORDER BY id DESC OFFSET $2 LIMIT 1
