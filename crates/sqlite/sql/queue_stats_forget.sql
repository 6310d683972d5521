-- ?1 since when minutes are kept, ?2 hours.
DELETE FROM queue_stats WHERE (span = 1 AND minute < ?1) OR (span = 60 AND minute < ?2)
