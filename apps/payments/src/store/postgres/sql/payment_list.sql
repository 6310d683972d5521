-- Payments and where they are, newest first. $1 below this message, $2 how many, $3 tenant,
-- $4 participant, $6 places, each NULL for any; $5 is NULL (see payment_list_instruction.sql).
SELECT p.*, coalesce(w.message_state, 'delivered') AS message_state, w.due_at, w.owner, w.expires_at, w.reason,
       (SELECT r.at FROM consign.erasure r WHERE r.message_id = p.message_id) AS erased_at,
       (SELECT coalesce(max(a.attempt_no), 0) FROM consign.attempt a WHERE a.message_id = p.message_id) AS attempts
    FROM consign.payment p LEFT JOIN consign.payment_undelivered w ON w.message_id = p.message_id
    WHERE p.message_id < $1
        AND EXISTS (SELECT FROM consign.message m WHERE m.id = p.message_id)
        AND ($3::uuid IS NULL OR p.tenant_id = $3)
        AND ($4::text IS NULL OR p.participant_id = $4)
        AND $5::text IS NULL
        AND ($6::text[] IS NULL OR coalesce(w.message_state, 'delivered') = ANY ($6))
    ORDER BY p.message_id DESC LIMIT $2
