-- One lane by primary key. ?1 name.
SELECT name, policy, paused_at FROM lane WHERE name = ?1
