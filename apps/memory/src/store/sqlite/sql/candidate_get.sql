-- A candidate. ?1 candidate.
SELECT candidate_id, run_id, space, kind, title, content_md, confidence, evidence_refs_json,
       promote_suggested, created_at
FROM knowledge_candidates WHERE candidate_id = ?1
