-- Writes a lease; its fence is new for ever. ?1 belongs to the statement run before (ready_remove);
-- ?2 ids, ?3 tries, ?4 attempts, ?5 token, ?6 queue, ?7 owner, ?8 claimed_at, ?9 expires_at,
-- ?10 whether the sink may be called from now on without a word.
INSERT INTO lease (token, queue, owner, claimed_at, expires_at, ids, tries, attempts, begun,
                   presumed_begun)
VALUES (?5, ?6, ?7, ?8, ?9, ?2, ?3, ?4, '[]', ?10)
RETURNING fence
