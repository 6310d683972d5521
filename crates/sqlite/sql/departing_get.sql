-- The messages that a departure removes. ?1 departure.
SELECT ids, records FROM departing WHERE departure_id = ?1
