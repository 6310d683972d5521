-- Rail references shared by several payments of a participant. $1 how many.
SELECT participant_id, rail_type, rail_reference, outbox_ids FROM consign.payment_outbox_reused_references
    ORDER BY outbox_ids[1] LIMIT $1
