-- The server's processes that work for this database, and those that work for all.
SELECT pid FROM pg_stat_activity
    WHERE (datname = current_database() OR datname IS NULL) AND pid <> pg_backend_pid()
