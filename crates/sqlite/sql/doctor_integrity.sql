-- SQLite's own check of the file, indexes included: one row `ok`, or one for each thing that is wrong.
PRAGMA integrity_check(100)
