-- Removes the quotas of days before yesterday. ?1 today.
DELETE FROM order_quota WHERE day < date(?1, '-1 day')
