DELETE FROM queue_stats WHERE minute < ?1
