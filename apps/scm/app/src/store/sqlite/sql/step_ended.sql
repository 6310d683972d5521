-- Records how a step of a repository ended. ?1 repository, ?2 step, ?3 whether it is complete, ?4 code and
-- ?5 message of the failure (null: none), ?6 now.
INSERT INTO scm_steps (repo_id, step, completed_at, stopped_at, code, message)
VALUES (?1, ?2, CASE WHEN ?3 THEN ?6 END, CASE WHEN ?4 IS NOT NULL THEN ?6 END, ?4, ?5)
ON CONFLICT (repo_id, step) DO UPDATE
SET completed_at = coalesce(excluded.completed_at, completed_at), stopped_at = excluded.stopped_at,
    code = excluded.code, message = excluded.message
