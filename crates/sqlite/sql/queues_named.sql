-- Several queues by primary key. ?1 JSON array of names.
SELECT l.name, l.policy, l.app FROM json_each(?1) AS wanted JOIN queue AS l ON l.name = wanted.value
