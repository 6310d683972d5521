-- Writes attempts of one lease that differ in their message only: the common case, a batch
-- delivered at the first try, costs a third of unnesting an array for every message.
-- ?1 fence, ?2 JSON array of ids, ?3 owner, ?4 token, ?5 claimed_at, ?6 finished_at,
-- ?7 attempt_no, ?8 outcome, ?9 code, ?10 detail, ?11 result, ?12 next_due_at.
INSERT INTO attempt (message_id, attempt_no, outcome, code, detail, result, next_due_at,
                     owner, fence, token, claimed_at, finished_at)
SELECT value, ?7, ?8, ?9, ?10, ?11, ?12, ?3, ?1, ?4, ?5, ?6
FROM json_each(?2)
