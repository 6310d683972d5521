DELETE FROM process WHERE seen_at < ?1
