-- Attempts of payments. ?1 JSON array of [message_id, attempt_no].
SELECT p.outbox_id, a.attempt_no, a.outcome, a.code, a.next_due_at
FROM json_each(?1) AS wanted
CROSS JOIN attempt AS a
    ON a.message_id = wanted.value ->> 0 AND a.attempt_no = wanted.value ->> 1
JOIN payment AS p ON p.message_id = a.message_id
ORDER BY wanted.key
