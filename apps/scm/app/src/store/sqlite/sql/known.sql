-- Whether a source id (?1) exists.
SELECT EXISTS (SELECT 1 FROM scm_v_facts WHERE source_id = ?1)
