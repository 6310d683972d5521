-- Row counts by status, along idempo_ledger_status alone.
SELECT status, count(*) FROM idempo_ledger GROUP BY status
