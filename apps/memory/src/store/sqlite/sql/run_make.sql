-- Inserts a run of an analysis unless it exists. ?1 source type, ?2 source, ?3 version, ?4 now.
INSERT INTO runs (source_type, source_id, pipeline_version, started_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (source_type, source_id, pipeline_version) DO NOTHING
