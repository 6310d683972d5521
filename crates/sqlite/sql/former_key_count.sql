-- How many keys of messages that have left are kept, by queue.
SELECT queue, count(*) FROM former_key GROUP BY queue
