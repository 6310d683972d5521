-- One departure. ?1 id.
SELECT id, first, last, at, cutoffs, messages, stay, fingerprint, must_archive, state, archive, cursor, ended_at
FROM departure WHERE id = ?1
