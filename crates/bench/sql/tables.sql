-- Dead rows per table of schema $1. Sessions must have ended, or the statistics do not know yet.
SELECT relname::text AS table_name, n_dead_tup AS dead FROM pg_stat_user_tables
    WHERE schemaname = $1 AND n_dead_tup > 0
    ORDER BY n_dead_tup DESC, relname
