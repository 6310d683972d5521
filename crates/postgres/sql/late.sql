-- Late results about one message ($1 bigint), in order of arrival. Primary key.
SELECT message_id, token, fence, owner, outcome::text AS outcome, code, detail, result, at
    FROM consign.late_view WHERE message_id = $1 ORDER BY at, fence
