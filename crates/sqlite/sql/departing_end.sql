-- Forgets the messages of a departure that is over. ?1 departure.
DELETE FROM departing WHERE departure_id = ?1
