-- Takes a turn if it is free, or a place as the next one if nobody else has it. ?1 destination,
-- ?2 who asks, ?3 now, ?4 until when the turn lasts, ?5 until when the place does. A place that is
-- good for a while is not written again.
INSERT INTO memory_turn (destination, holder, expires_at) VALUES (?1, ?2, ?4)
ON CONFLICT (destination) DO UPDATE SET
    (holder, expires_at, next_holder, next_until) = (
        SELECT iif(is_free, ?2, memory_turn.holder), iif(is_free, ?4, memory_turn.expires_at),
               iif(is_free, NULL, ?2), iif(is_free, NULL, ?5)
        FROM (SELECT coalesce(memory_turn.holder = ?2, 1) OR memory_turn.expires_at <= ?3 AS is_free))
WHERE (coalesce(next_holder = ?2, 1) OR next_until <= ?3)
  AND (coalesce(holder = ?2, 1) OR expires_at <= ?3
       OR next_holder IS NOT ?2 OR next_until < (?3 + ?5) / 2)
RETURNING holder = ?2 AS is_mine
