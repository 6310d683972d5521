SELECT queue, reason, code, pending, first_at, failure FROM alert WHERE failure IS NOT NULL
ORDER BY queue, reason, code LIMIT ?1
