-- From here on a departure removes messages, under the newest audit entry. ?1 id.
UPDATE departure SET state = 'leaving', audit_id = (SELECT max(id) FROM audit) WHERE id = ?1
