-- The departure that is not over. Uses departure_under_way.
SELECT id, first, last, at, cutoffs, messages, stay, fingerprint, must_archive, state, archive, cursor, ended_at
FROM departure WHERE ended_at IS NULL
