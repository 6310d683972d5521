-- Forgets leases that have ended.
DELETE FROM memory_lease WHERE NOT EXISTS (SELECT 1 FROM lease WHERE lease.fence = memory_lease.fence)
