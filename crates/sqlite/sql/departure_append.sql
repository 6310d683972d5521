-- Begins a departure. ?1 first id, ?2 last id, ?3 at, ?4 cutoffs, ?5 messages, ?6 how many stay, ?7 fingerprint,
-- ?8 whether an archive is required.
INSERT INTO departure (first, last, at, cutoffs, messages, stay, fingerprint, must_archive, cursor)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?1 - 1)
RETURNING id, first, last, at, cutoffs, messages, stay, fingerprint, must_archive, state, archive, cursor, ended_at
