-- Uses some of a day's quota. ?1 client, ?2 day, ?3 how much.
INSERT INTO order_quota (client, day, used) VALUES (?1, ?2, ?3)
ON CONFLICT (client, day) DO UPDATE SET used = used + excluded.used
