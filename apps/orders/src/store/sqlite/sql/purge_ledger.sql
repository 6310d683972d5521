-- Removes rows of the ledger. ?1 JSON array of rowids.
DELETE FROM idempo_ledger WHERE rowid IN (SELECT value FROM json_each(?1))
