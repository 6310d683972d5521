-- Writes the attempts of one lease, all in one statement.
-- ?1 JSON array of [message_id, attempt_no, outcome, code, detail, result as text, next_due_at],
-- ?2 owner, ?3 fence, ?4 token, ?5 claimed_at, ?6 finished_at.
INSERT INTO attempt (message_id, attempt_no, outcome, code, detail, result, next_due_at,
                     owner, fence, token, claimed_at, finished_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       ?2, ?3, ?4, ?5, ?6
FROM json_each(?1)
