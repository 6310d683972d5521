-- Forgets a client's other days but the last. ?1 client, ?2 today.
DELETE FROM order_quota WHERE client = ?1 AND day < date(?2, '-1 day')
