-- Records the archive of a departure that has removed nothing. ?1 id, ?2 archive.
UPDATE departure SET state = 'archived', archive = ?2
WHERE id = ?1 AND state IN ('open', 'archived')
