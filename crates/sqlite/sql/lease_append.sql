-- Writes a lease; its fence is new for ever. ?1 token, ?2 lane, ?3 owner, ?4 claimed_at,
-- ?5 expires_at, ?6 ids, ?7 tries, ?8 attempts.
INSERT INTO lease (token, lane, owner, claimed_at, expires_at, ids, tries, attempts, begun)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '[]')
RETURNING fence
