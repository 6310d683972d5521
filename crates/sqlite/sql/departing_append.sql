-- Fixes the messages that a departure removes. ?1 departure, ?2 ids, ?3 how much is recorded about each, both JSON arrays.
INSERT INTO departing (departure_id, ids, records) VALUES (?1, ?2, ?3)
