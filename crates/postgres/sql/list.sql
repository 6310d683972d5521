-- The messages named in $1 (bigint[]), newest first, each with where it is. Primary keys only.
SELECT m.id, m.lane, m.key, m."group", m.created_at, consign.state_of(m.id) AS state,
       (SELECT count(*) FROM consign.attempt WHERE message_id = m.id)::int AS attempts
    FROM consign.message m WHERE m.id = ANY ($1) ORDER BY m.id DESC
