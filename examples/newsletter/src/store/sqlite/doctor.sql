-- Subscribers whose status is not what became of their message. A subscriber stays when the message leaves.
SELECT s.address, s.message_id FROM newsletter_subscriber s JOIN message m ON m.id = s.message_id
    WHERE s.status <> CASE
        WHEN EXISTS (SELECT 1 FROM attempt a WHERE a.message_id = s.message_id AND a.outcome = 'delivered') THEN 'welcomed'
        WHEN EXISTS (SELECT 1 FROM dead d WHERE d.message_id = s.message_id) THEN 'unreachable'
        ELSE 'pending' END
    ORDER BY s.message_id
