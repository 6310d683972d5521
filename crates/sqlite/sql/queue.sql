-- One queue by primary key. ?1 name.
SELECT name, policy, paused_at FROM queue WHERE name = ?1
