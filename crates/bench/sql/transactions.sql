SELECT xact_commit + xact_rollback AS transactions FROM pg_stat_database WHERE datname = current_database()
