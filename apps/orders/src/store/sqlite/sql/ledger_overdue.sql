-- Orders that were sent within a request and have no recorded result, oldest first. Uses
-- idempo_ledger_open. ?1 now, ?2 at most this many.
SELECT rowid FROM idempo_ledger
WHERE give_up_at IS NOT NULL AND status = 'accepted' AND give_up_at <= ?1
ORDER BY give_up_at LIMIT ?2
