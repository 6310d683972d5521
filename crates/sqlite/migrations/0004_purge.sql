-- Removing what was recorded, with an audit entry that says so.

-- A purge: the one way in which messages, attempts and late results go, and only in a transaction
-- that has recorded why. `purging` names the audit entry and is empty outside that transaction.
CREATE TABLE purging (
    audit_id INTEGER PRIMARY KEY
) STRICT;

-- The newest message ever purged, whose id is not given again, and the audit entry that tells of
-- the last purge, under which no other can run.
CREATE TABLE purged (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    audit_id   INTEGER NOT NULL,
    message_id INTEGER NOT NULL
) STRICT;
INSERT INTO purged VALUES (1, 0, 0);

CREATE TRIGGER purging_insert BEFORE INSERT ON purging
WHEN NEW.audit_id IS NOT (SELECT max(id) FROM audit)
     OR NEW.audit_id <= (SELECT audit_id FROM purged)
     OR 'purge' IS NOT (SELECT action FROM audit WHERE id = NEW.audit_id)
     OR EXISTS (SELECT 1 FROM purging)
BEGIN SELECT raise(ABORT, 'purging needs an audit entry of its own: `purge`, the newest'); END;
CREATE TRIGGER purging_update BEFORE UPDATE ON purging
BEGIN SELECT raise(ABORT, 'purging needs an audit entry of its own'); END;

CREATE TRIGGER purged_insert BEFORE INSERT ON purged
BEGIN SELECT raise(ABORT, 'purged has one row'); END;
CREATE TRIGGER purged_delete BEFORE DELETE ON purged
BEGIN SELECT raise(ABORT, 'purged keeps its row: an id is not given twice'); END;
CREATE TRIGGER purged_update BEFORE UPDATE ON purged
WHEN NEW.message_id < OLD.message_id OR NEW.audit_id < OLD.audit_id
BEGIN SELECT raise(ABORT, 'purged only grows: an id is not given twice'); END;

CREATE TRIGGER message_delete BEFORE DELETE ON message
WHEN NOT EXISTS (SELECT 1 FROM purging)
BEGIN SELECT raise(ABORT, 'message is append-only: only an audited purge removes rows'); END;
CREATE TRIGGER message_purged AFTER DELETE ON message
BEGIN
    UPDATE purged SET audit_id = (SELECT audit_id FROM purging),
                      message_id = max(message_id, OLD.id);
END;
CREATE TRIGGER attempt_delete BEFORE DELETE ON attempt
WHEN NOT EXISTS (SELECT 1 FROM purging)
BEGIN SELECT raise(ABORT, 'attempt is append-only: only an audited purge removes rows'); END;
CREATE TRIGGER late_delete BEFORE DELETE ON late
WHEN NOT EXISTS (SELECT 1 FROM purging)
BEGIN SELECT raise(ABORT, 'late is append-only: only an audited purge removes rows'); END;
