-- Gives up a departure that has removed nothing. ?1 id.
DELETE FROM departure WHERE id = ?1
