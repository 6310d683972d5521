-- Messages of orders whose key can still be repeated. Uses idempo_ledger_outbox. ?1 first id, ?2 last id, ?3 now.
SELECT outbox_id FROM idempo_ledger
WHERE outbox_id >= ?1 AND outbox_id <= ?2 AND expires_at > ?3
