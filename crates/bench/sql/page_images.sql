-- Bytes of full-page images between two positions of the WAL; needs pg_walinspect.
SELECT coalesce(sum(fpi_size), 0)::float8 AS bytes FROM pg_get_wal_stats($1::text::pg_lsn, $2::text::pg_lsn)
