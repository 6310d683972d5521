-- How the steps of a repository (?1) ended last.
SELECT step, completed_at, stopped_at, code, message FROM scm_steps WHERE repo_id = ?1
