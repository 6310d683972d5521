-- After the clock was set back, redrives do not wait for the time it showed before. ?1 now.
UPDATE redrive SET paced_at = ?1 WHERE state = 'running' AND paced_at > ?1
