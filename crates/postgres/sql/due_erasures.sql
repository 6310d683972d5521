-- Erasures that the archive is still to be cleared of, by id: $1 how many. Primary keys.
SELECT e.message_id, e.at AS erased_at, e.actor AS erased_by, e.reason AS erased_reason, encode(e.digest, 'hex') AS erased_digest
    FROM consign.erasure_due d JOIN consign.erasure e ON e.message_id = d.message_id
    ORDER BY d.message_id LIMIT $1
