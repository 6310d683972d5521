-- Records how a pass ended. ?1 now, ?2 how.
UPDATE maintenance SET
    passes = CASE WHEN pass_end = ?2 THEN passes + 1 ELSE 1 END,
    pass_since = CASE WHEN pass_end = ?2 THEN pass_since ELSE ?1 END,
    pass_at = ?1, pass_end = ?2
