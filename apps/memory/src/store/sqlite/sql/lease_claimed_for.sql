-- Notes for how long a lease was claimed. ?1 fence, ?2 microseconds.
INSERT INTO memory_lease (fence, claimed_for) VALUES (?1, ?2)
