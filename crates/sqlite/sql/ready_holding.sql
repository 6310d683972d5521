-- The ready batches that hold any of these messages. Walks the queues' batches: there is no index from
-- message to batch, because writing it would cost every claim. ?1 JSON array of ids, ?2 text that
-- every such batch contains (the id if there is only one, else empty): a search for it is many
-- times faster than unnesting the array.
SELECT batch, due_at, ids, tries, attempts FROM ready
WHERE instr(ids, ?2) > 0
  AND EXISTS (SELECT 1 FROM json_each(ready.ids) AS held
              WHERE held.value IN (SELECT value FROM json_each(?1)))
ORDER BY batch
