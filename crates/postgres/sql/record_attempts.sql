-- Every attempt of messages ($1 bigint[]), first to last. Primary key.
SELECT message_id, attempt_no, outcome::text AS outcome, owner, fence, token, claimed_at, finished_at, code, detail,
       result, next_due_at
    FROM consign.attempt_view WHERE message_id = ANY ($1) AND message_id BETWEEN consign.least_id($1) AND consign.greatest_id($1) ORDER BY message_id, attempt_no
