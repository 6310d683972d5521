-- The server processes of a store's connections.
SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'consign'
