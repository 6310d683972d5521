-- Messages, attempts and audit entries are append-only, for everybody who opens the file. What a purge may
-- remove is in 0004_purge.sql.
--
-- REPLACE removes the row in its way without firing a DELETE trigger (unless recursive_triggers
-- is on), so an insert over an existing row is refused as well.

CREATE TRIGGER message_update BEFORE UPDATE ON message
BEGIN SELECT raise(ABORT, 'message is append-only: write a new row instead'); END;
CREATE TRIGGER message_replace BEFORE INSERT ON message
WHEN EXISTS (SELECT 1 FROM message WHERE id = NEW.id)
BEGIN SELECT raise(ABORT, 'message is append-only: this id is taken'); END;
CREATE TRIGGER message_replace_key BEFORE INSERT ON message
WHEN NEW.key IS NOT NULL
     AND EXISTS (SELECT 1 FROM message WHERE queue = NEW.queue AND key = NEW.key)
BEGIN SELECT raise(ABORT, 'message is append-only: this key is taken'); END;

CREATE TRIGGER attempt_update BEFORE UPDATE ON attempt
BEGIN SELECT raise(ABORT, 'attempt is append-only: write a new row instead'); END;
CREATE TRIGGER attempt_replace BEFORE INSERT ON attempt
WHEN EXISTS (SELECT 1 FROM attempt
             WHERE message_id = NEW.message_id AND attempt_no = NEW.attempt_no)
BEGIN SELECT raise(ABORT, 'attempt is append-only: this attempt is recorded'); END;

CREATE TRIGGER audit_update BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'audit is append-only: write a new row instead'); END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit
BEGIN SELECT raise(ABORT, 'audit is append-only: nothing recorded is ever removed'); END;
CREATE TRIGGER audit_replace BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
BEGIN SELECT raise(ABORT, 'audit is append-only: this id is taken'); END;
