-- The newest id ever given to a message; those of purged ones are not given again.
SELECT max(coalesce((SELECT max(id) FROM message), 0), message_id) FROM purged
