-- Whether there is something under a name (?1).
SELECT EXISTS (SELECT 1 FROM scm_v_facts WHERE source_id = ?1)
