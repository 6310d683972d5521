-- Removes the audit entries about messages that leave, by audit_message. ?1 JSON array of ids.
DELETE FROM audit WHERE message_id IN (SELECT value FROM json_each(?1))
