-- One schedule. ?1 name.
SELECT * FROM schedule WHERE name = ?1
