-- Removes rows of the ledger. Before their messages, so that taking those out of the dead brings
-- nothing back. ?1 JSON array of rowids.
DELETE FROM idempo_ledger WHERE rowid IN (SELECT value FROM json_each(?1))
