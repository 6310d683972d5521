-- SQLite's own check of the file: one row `ok`, or one for each thing that is wrong.
PRAGMA quick_check
