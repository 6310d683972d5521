-- Takes the write lock, waiting for other processes: what is read afterwards cannot change before
-- the transaction ends, and no statement after it can find the database busy.
BEGIN IMMEDIATE
