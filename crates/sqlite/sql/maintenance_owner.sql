-- The owner of the live lease of the maintenance with this token. ?1 token, ?2 now.
SELECT owner FROM maintenance WHERE token = ?1 AND expires_at > ?2
