-- How many sent or dead rows of audits are gone, and how many have left. Uses write_audit_outbox.
SELECT (SELECT count(DISTINCT outbox_id) FROM write_audit AS w
        WHERE outbox_id IS NOT NULL
          AND (reason GLOB 'outbox_flush_success*' OR reason GLOB 'outbox_flush_dedup_hit*'
               OR reason GLOB 'outbox_flush_dead*')
          AND NOT EXISTS (SELECT 1 FROM message WHERE id = w.outbox_id AND queue = 'memory')),
       coalesce((SELECT messages FROM departed WHERE queue = 'memory'), 0)
