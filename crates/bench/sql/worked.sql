-- What was delivered since message $1, and from the first claim to the last settle, in seconds.
SELECT count(*) AS messages, coalesce(extract(epoch FROM max(finished_at) - min(claimed_at))::float8, 0) AS seconds
    FROM consign.attempt
    WHERE message_id > $1 AND outcome = 'delivered'
