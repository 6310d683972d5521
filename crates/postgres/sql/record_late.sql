-- Late results about messages ($1 bigint[]), in order of arrival. Primary key.
SELECT message_id, token, fence, owner, outcome::text AS outcome, code, detail, result, at
    FROM consign.late_view WHERE message_id = ANY ($1) AND message_id BETWEEN consign.least_id($1) AND consign.greatest_id($1) ORDER BY message_id, at, fence
