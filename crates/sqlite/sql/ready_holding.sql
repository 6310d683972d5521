-- The ready runs that hold any of these messages. Walks the queues' runs: there is no index from
-- message to run, because writing it would cost every claim. ?1 JSON array of ids, ?2 text that
-- every such run contains (the id if there is only one, else empty): a search for it is many
-- times faster than taking the array apart.
SELECT run, due_at, ids, tries, attempts FROM ready
WHERE instr(ids, ?2) > 0
  AND EXISTS (SELECT 1 FROM json_each(ready.ids) AS held
              WHERE held.value IN (SELECT value FROM json_each(?1)))
ORDER BY run
