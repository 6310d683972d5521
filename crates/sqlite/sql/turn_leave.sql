-- Gives a turn back. ?1 destination, ?2 holder.
UPDATE memory_turn SET holder = NULL WHERE destination = ?1 AND holder = ?2
