-- Writes one ready batch. ?1 queue, ?2 due_at, ?3 isolated, ?4 ids, ?5 tries, ?6 attempts.
INSERT INTO ready (queue, due_at, isolated, ids, tries, attempts) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
