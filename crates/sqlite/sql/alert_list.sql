-- Every alert that is counted, due or not.
SELECT queue, reason, code, pending, first_at, last_at, message_id, alerted_at, failure FROM alert
