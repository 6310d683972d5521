-- Releases a write lock. ?1 destination, ?2 holder.
UPDATE memory_write_lock SET holder = NULL WHERE destination = ?1 AND holder = ?2
