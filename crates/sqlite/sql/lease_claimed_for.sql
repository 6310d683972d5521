-- Notes for how long a lease was claimed. ?1 fence, ?2 microseconds.
UPDATE lease SET claimed_for = ?2 WHERE fence = ?1
