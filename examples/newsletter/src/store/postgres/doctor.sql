-- Every subscriber's status is what became of its message. The subscriber stays when the message leaves.
SELECT 'subscriber_disagrees' AS code, count(*) || ' subscriber(s) have another status than their message' AS what,
       'as owner run SELECT newsletter.refresh(ids)' AS remedy, (array_agg(s.message_id ORDER BY s.message_id))[: 20] AS ids
    FROM newsletter.subscriber s JOIN consign.message m ON m.id = s.message_id
    WHERE s.status <> CASE
            WHEN EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = s.message_id AND a.outcome = 'delivered') THEN 'welcomed'
            WHEN EXISTS (SELECT FROM consign.dead d WHERE d.message_id = s.message_id) THEN 'unreachable'
            ELSE 'pending' END
    HAVING count(*) > 0
