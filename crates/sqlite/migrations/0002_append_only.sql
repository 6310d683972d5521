-- Messages, attempts, late results and audit entries are append-only, for every program that opens the file. Only a purge
-- or a departure deletes, whole messages with everything recorded about them, under an audit entry that stays.
-- Only an erasure updates: the content of a message that `erasure` names goes, and nothing else changes. A result may keep
-- members that it had.
--
-- REPLACE deletes the row in its way without firing a DELETE trigger (unless recursive_triggers is on), so an insert over
-- an existing row is rejected as well.

CREATE TRIGGER message_update BEFORE UPDATE ON message
WHEN NEW.id <> OLD.id OR NEW.queue <> OLD.queue OR NEW.key IS NOT OLD.key OR NEW."group" IS NOT OLD."group"
     OR NEW.created_at <> OLD.created_at OR NEW.expires_at IS NOT OLD.expires_at OR NEW.headers <> '{}' OR NEW.payload <> 'null'
     OR NOT EXISTS (SELECT 1 FROM erasure WHERE message_id = OLD.id)
BEGIN SELECT raise(ABORT, 'message is append-only: write a new row instead'); END;
CREATE TRIGGER message_replace BEFORE INSERT ON message
WHEN EXISTS (SELECT 1 FROM message WHERE id = NEW.id)
BEGIN SELECT raise(ABORT, 'message is append-only: this id is taken'); END;
CREATE TRIGGER message_replace_key BEFORE INSERT ON message
WHEN NEW.key IS NOT NULL
     AND EXISTS (SELECT 1 FROM message WHERE queue = NEW.queue AND key = NEW.key)
BEGIN SELECT raise(ABORT, 'message is append-only: this key is taken'); END;

CREATE TRIGGER attempt_update BEFORE UPDATE ON attempt
WHEN NEW.message_id <> OLD.message_id OR NEW.attempt_no <> OLD.attempt_no OR NEW.outcome <> OLD.outcome
     OR NEW.owner <> OLD.owner OR NEW.fence <> OLD.fence OR NEW.token <> OLD.token OR NEW.claimed_at <> OLD.claimed_at
     OR NEW.finished_at <> OLD.finished_at OR NEW.next_due_at IS NOT OLD.next_due_at OR NEW.code IS NOT OLD.code
     OR NEW.detail IS NOT NULL OR NEW.result IS NOT NULL AND json_patch(OLD.result, NEW.result) IS NOT json(OLD.result)
     OR NOT EXISTS (SELECT 1 FROM erasure WHERE message_id = OLD.message_id)
BEGIN SELECT raise(ABORT, 'attempt is append-only: write a new row instead'); END;
CREATE TRIGGER attempt_replace BEFORE INSERT ON attempt
WHEN EXISTS (SELECT 1 FROM attempt
             WHERE message_id = NEW.message_id AND attempt_no = NEW.attempt_no)
BEGIN SELECT raise(ABORT, 'attempt is append-only: this attempt is recorded'); END;

CREATE TRIGGER late_update BEFORE UPDATE ON late
WHEN NEW.message_id <> OLD.message_id OR NEW.token <> OLD.token OR NEW.fence <> OLD.fence OR NEW.owner <> OLD.owner
     OR NEW.outcome <> OLD.outcome OR NEW.at <> OLD.at OR NEW.code IS NOT OLD.code OR NEW.after_all <> OLD.after_all
     OR NEW.detail IS NOT NULL OR NEW.result IS NOT NULL AND json_patch(OLD.result, NEW.result) IS NOT json(OLD.result)
     OR NOT EXISTS (SELECT 1 FROM erasure WHERE message_id = OLD.message_id)
BEGIN SELECT raise(ABORT, 'late is append-only: write a new row instead'); END;
CREATE TRIGGER late_replace BEFORE INSERT ON late
WHEN EXISTS (SELECT 1 FROM late
             WHERE message_id = NEW.message_id AND token = NEW.token AND after_all = NEW.after_all)
BEGIN SELECT raise(ABORT, 'late is append-only: the first result stands'); END;

CREATE TRIGGER audit_update BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'audit is append-only: write a new row instead'); END;
CREATE TRIGGER audit_replace BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
BEGIN SELECT raise(ABORT, 'audit is append-only: this id is taken'); END;

CREATE TRIGGER erasure_insert BEFORE INSERT ON erasure
WHEN NOT EXISTS (SELECT 1 FROM audit WHERE message_id = NEW.message_id AND action = 'erase')
BEGIN SELECT raise(ABORT, 'erasure needs an audit entry of its message: `erase`'); END;
CREATE TRIGGER erasure_update BEFORE UPDATE ON erasure
BEGIN SELECT raise(ABORT, 'erasure is append-only: a message is erased once'); END;
CREATE TRIGGER erasure_delete BEFORE DELETE ON erasure
BEGIN SELECT raise(ABORT, 'erasure is append-only: it is on record for ever'); END;
CREATE TRIGGER erasure_replace BEFORE INSERT ON erasure
WHEN EXISTS (SELECT 1 FROM erasure WHERE message_id = NEW.message_id)
BEGIN SELECT raise(ABORT, 'erasure is append-only: this message is erased'); END;

CREATE TRIGGER former_key_update BEFORE UPDATE ON former_key
BEGIN SELECT raise(ABORT, 'former_key is append-only: a key names one message'); END;
CREATE TRIGGER former_key_replace BEFORE INSERT ON former_key
WHEN EXISTS (SELECT 1 FROM former_key WHERE queue = NEW.queue AND key = NEW.key)
BEGIN SELECT raise(ABORT, 'former_key is append-only: this key is taken'); END;

CREATE TRIGGER departed_update BEFORE UPDATE ON departed
WHEN NEW.queue <> OLD.queue OR NEW.messages < OLD.messages OR NEW.dead < OLD.dead OR NEW.revived < OLD.revived
     OR NEW.discarded < OLD.discarded
BEGIN SELECT raise(ABORT, 'departed only grows: it counts what has left, ever'); END;
CREATE TRIGGER departed_delete BEFORE DELETE ON departed
BEGIN SELECT raise(ABORT, 'departed only grows: it counts what has left, ever'); END;
CREATE TRIGGER departed_replace BEFORE INSERT ON departed
WHEN EXISTS (SELECT 1 FROM departed WHERE queue = NEW.queue)
BEGIN SELECT raise(ABORT, 'departed only grows: this queue is counted'); END;

-- A departure goes one way: open, archived, leaving, over. It leaves under an audit entry of its own, which is the newest
-- at that moment, and can be given up only before.
CREATE TRIGGER departure_insert BEFORE INSERT ON departure
WHEN NEW.state <> 'open' OR NEW.audit_id IS NOT NULL OR NEW.ended_at IS NOT NULL
     OR EXISTS (SELECT 1 FROM departure WHERE id = NEW.id OR ended_at IS NULL)
BEGIN SELECT raise(ABORT, 'departure begins open, one at a time'); END;
CREATE TRIGGER departure_update BEFORE UPDATE ON departure
WHEN OLD.ended_at IS NOT NULL
     OR NEW.id <> OLD.id OR NEW.first <> OLD.first OR NEW.last <> OLD.last
     OR OLD.state = 'leaving' AND (NEW.state <> 'leaving' OR NEW.audit_id IS NOT OLD.audit_id)
     OR OLD.state <> 'leaving' AND NEW.ended_at IS NOT NULL
     OR NEW.state <> 'leaving' AND NEW.audit_id IS NOT NULL
     OR OLD.state <> 'leaving' AND NEW.state = 'leaving'
        AND (NEW.audit_id IS NOT (SELECT max(id) FROM audit)
             OR 'depart' IS NOT (SELECT action FROM audit WHERE id = NEW.audit_id)
             OR EXISTS (SELECT 1 FROM departure WHERE audit_id = NEW.audit_id))
BEGIN SELECT raise(ABORT, 'departure goes one way, under an audit entry of its own: `depart`, the newest'); END;
CREATE TRIGGER departure_delete BEFORE DELETE ON departure
WHEN OLD.state = 'leaving'
BEGIN SELECT raise(ABORT, 'departure is on record: only one that removed nothing is given up'); END;

-- `purging` names an audit entry of its own, or that of the departure under way within its window; deletes pass while it
-- does.
CREATE TRIGGER purging_insert BEFORE INSERT ON purging
WHEN EXISTS (SELECT 1 FROM purging)
     OR NOT (NEW.audit_id IS (SELECT max(id) FROM audit)
             AND NEW.audit_id > (SELECT audit_id FROM purged)
             AND 'purge' IS (SELECT action FROM audit WHERE id = NEW.audit_id)
             OR EXISTS (SELECT 1 FROM departure
                        WHERE audit_id = NEW.audit_id AND ended_at IS NULL
                              AND first <= NEW.first AND NEW.last <= last))
BEGIN
    SELECT raise(ABORT, 'purging needs an audit entry of its own: `purge`, the newest, or of the departure under way');
END;
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
WHEN NOT EXISTS (SELECT 1 FROM purging WHERE OLD.id >= first AND OLD.id <= last)
BEGIN SELECT raise(ABORT, 'message is append-only: only an audited purge or departure removes rows'); END;
-- A departure lasts longer than a purge, which may come between: `purged` keeps the newer audit entry.
CREATE TRIGGER message_purged AFTER DELETE ON message
BEGIN
    UPDATE purged SET audit_id = max(audit_id, (SELECT audit_id FROM purging)),
                      message_id = max(message_id, OLD.id);
END;
CREATE TRIGGER attempt_delete BEFORE DELETE ON attempt
WHEN NOT EXISTS (SELECT 1 FROM purging WHERE OLD.message_id >= first AND OLD.message_id <= last)
BEGIN SELECT raise(ABORT, 'attempt is append-only: only an audited purge or departure removes rows'); END;
-- An entry about no message stays.
CREATE TRIGGER audit_delete BEFORE DELETE ON audit
WHEN OLD.message_id IS NULL
     OR NOT EXISTS (SELECT 1 FROM purging WHERE OLD.message_id >= first AND OLD.message_id <= last)
BEGIN SELECT raise(ABORT, 'audit is append-only: only an audited purge or departure removes rows'); END;
CREATE TRIGGER late_delete BEFORE DELETE ON late
WHEN NOT EXISTS (SELECT 1 FROM purging WHERE OLD.message_id >= first AND OLD.message_id <= last)
BEGIN SELECT raise(ABORT, 'late is append-only: only an audited purge or departure removes rows'); END;
