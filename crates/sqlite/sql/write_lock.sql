-- Changes nothing, but takes the write lock: what is read afterwards cannot change before the
-- transaction ends.
UPDATE queue SET policy = policy WHERE 0
