-- Opens the way for a step of a departure, within its window. ?2 id of the departure.
INSERT INTO purging (audit_id, first, last) SELECT audit_id, first, last FROM departure WHERE id = ?2
