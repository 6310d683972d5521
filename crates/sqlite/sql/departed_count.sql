-- Counts messages that have left or were requeued. ?1 JSON array of [queue, messages, dead, revived].
UPDATE departed SET messages = messages + counted.value ->> 1, dead = dead + counted.value ->> 2,
                    revived = revived + counted.value ->> 3
FROM json_each(?1) AS counted WHERE departed.queue = counted.value ->> 0
