-- What a worker gets to see of its messages, as the inside of one JSON array: one row instead of
-- many spares a wake-up of the other thread for each. By primary key. CROSS JOIN keeps the order of
-- the array. ?1 belongs to a statement run before (ready_remove); ?2 JSON array of ids.
SELECT group_concat(
           '[' || m.id || ',' || json_quote(m.queue) || ',' || json_quote(m.key) || ','
           || json_quote(m."group") || ',' || m.created_at || ',' || ifnull(m.expires_at, 'null') || ','
           || m.headers || ',' || m.payload || ']'
       )
FROM json_each(?2) AS wanted
CROSS JOIN message AS m ON m.id = wanted.value
