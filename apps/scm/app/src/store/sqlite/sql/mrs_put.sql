-- Inserts or updates merge requests; an older state does not replace a newer one. ?1 JSON array of
-- [iid, status, url, meta_json, created_at, updated_at], the document as text; ?2 repository.
INSERT INTO scm_mrs (mr_id, repo_id, status, url, meta_json, created_at, updated_at)
SELECT ?2 || ':' || (value ->> 0), ?2, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
FROM json_each(?1)
WHERE true
ORDER BY key
ON CONFLICT (mr_id) DO UPDATE
SET status = excluded.status, url = excluded.url, meta_json = excluded.meta_json,
    created_at = coalesce(excluded.created_at, scm_mrs.created_at), updated_at = excluded.updated_at
WHERE scm_mrs.updated_at IS NULL OR excluded.updated_at >= scm_mrs.updated_at
