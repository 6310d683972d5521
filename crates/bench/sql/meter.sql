-- Position in the WAL, full-page images so far, and the next transaction id.
SELECT pg_current_wal_insert_lsn()::text AS position, (pg_current_wal_insert_lsn() - '0/0')::float8 AS bytes,
       (SELECT wal_fpi::float8 FROM pg_stat_wal) AS page_images,
       pg_snapshot_xmax(pg_current_snapshot())::text::float8 AS transactions
