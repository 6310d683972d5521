-- How much of a day's quota is used. ?1 client, ?2 day.
SELECT used FROM order_quota WHERE client = ?1 AND day = ?2
