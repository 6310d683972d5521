-- Records how a pass ended. ?1 now, ?2 how.
UPDATE maintenance SET
    passes = CASE WHEN (pass_end = 'done') = (?2 = 'done') THEN passes + 1 ELSE 1 END,
    pass_since = CASE WHEN (pass_end = 'done') = (?2 = 'done') THEN pass_since ELSE ?1 END,
    pass_ends = CASE WHEN (pass_end = 'done') = (?2 = 'done')
                     THEN iif(EXISTS (SELECT 1 FROM json_each(pass_ends) WHERE value = ?2), pass_ends, json_insert(pass_ends, '$[#]', ?2))
                     ELSE json_array(?2) END,
    pass_at = ?1, pass_end = ?2
