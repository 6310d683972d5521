-- Sets subscribers' status to what became of their messages. ?1 JSON array of message ids.
UPDATE newsletter_subscriber AS s SET status = CASE
        WHEN EXISTS (SELECT 1 FROM attempt a WHERE a.message_id = s.message_id AND a.outcome = 'delivered') THEN 'welcomed'
        WHEN EXISTS (SELECT 1 FROM dead d WHERE d.message_id = s.message_id) THEN 'unreachable'
        ELSE 'pending' END
    WHERE s.message_id IN (SELECT value FROM json_each(?1))
