-- Erased messages that have content or are not final; an app may keep a part of results. The erasures are few; each is looked up by primary keys.
SELECT m.id FROM erasure AS e
CROSS JOIN message AS m ON m.id = e.message_id
JOIN queue AS q ON q.name = m.queue
WHERE m.payload <> 'null' OR m.headers <> '{}'
   OR EXISTS (SELECT 1 FROM attempt WHERE message_id = m.id AND (detail IS NOT NULL OR result IS NOT NULL AND q.app IS NULL))
   OR EXISTS (SELECT 1 FROM late WHERE message_id = m.id AND (detail IS NOT NULL OR result IS NOT NULL AND q.app IS NULL))
   OR NOT EXISTS (SELECT 1 FROM dead WHERE message_id = m.id AND detail IS NULL)
      AND NOT EXISTS (SELECT 1 FROM discarded WHERE message_id = m.id)
      AND (SELECT outcome FROM attempt WHERE message_id = m.id ORDER BY attempt_no DESC LIMIT 1) IS NOT 'delivered'
LIMIT 100
