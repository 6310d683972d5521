-- Ends a lease. ?1 fence.
DELETE FROM lease WHERE fence = ?1
