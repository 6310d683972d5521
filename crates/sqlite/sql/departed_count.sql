-- Counts messages that have left, were requeued or discarded. ?1 JSON array of [queue, messages, dead, revived, discarded].
UPDATE departed SET messages = messages + counted.value ->> 1, dead = dead + counted.value ->> 2,
                    revived = revived + counted.value ->> 3, discarded = discarded + counted.value ->> 4
FROM json_each(?1) AS counted WHERE departed.queue = counted.value ->> 0
