-- Inserts new commits in their order. ?1 JSON array of [sha, author, ts, message, is_merge,
-- bulk_reason, meta_json], the last as text; ?2 repository.
INSERT INTO scm_git_commits (repo_id, commit_sha, author_raw, ts, message, is_merge, bulk_reason, meta_json)
SELECT ?2, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
FROM json_each(?1)
WHERE true
ORDER BY key
ON CONFLICT (source_id) DO NOTHING
