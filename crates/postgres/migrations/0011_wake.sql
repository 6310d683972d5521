-- Wake-ups that cost a busy producer nothing. The protocol and its interleavings: docs/adr/0006-wake-ups.md.

-- Deletes the registrations of a queue that would sleep past p_due_at, and notifies if there were any.
--
-- Another producer may be deleting the same ones. If it commits, its notification wakes the workers, which look again once
-- this transaction has ended (consign.look), and nothing is left to notify here. If it aborts, they are deleted here. If
-- it stays open for longer than a commit takes, this one notifies as well.
CREATE FUNCTION consign.take_idle(p_queue text, p_due_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET lock_timeout = '200ms'
    AS $$
DECLARE
    v_now timestamptz := consign.clock();
BEGIN
    BEGIN
        DELETE FROM consign.idle WHERE queue = p_queue AND sleeps_until > greatest(p_due_at, v_now);
        IF NOT FOUND THEN
            RETURN;
        END IF;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        NULL;
    END;
    PERFORM pg_notify('consign', p_queue || CASE WHEN p_due_at > v_now THEN ' later' ELSE '' END);
END $$;
REVOKE ALL ON FUNCTION consign.take_idle(text, timestamptz) FROM PUBLIC;

-- At the commit of a transaction that inserted a batch into ready: wakes the workers that would sleep past its due time.
-- In ordered queues also at the commit of a message that waits, and of a head left open: the next claim decides which
-- message is next, so a message that waits behind an open head can be claimed. Two transactions that do the one and the
-- other at once do not see each other; a head left open therefore always wakes.
--
-- Reading consign.idle locks it (ACCESS SHARE) before the statement's snapshot is taken and until the transaction ends. A
-- worker that registers too late to be seen here sees that lock, and looks again when it is gone.
CREATE FUNCTION consign.wake_workers() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    -- Read once: an index cannot be searched by a volatile function.
    v_now    CONSTANT timestamptz := consign.clock();
    v_due_at timestamptz := '-infinity';
BEGIN
    IF TG_TABLE_NAME = 'ready' THEN
        v_due_at := NEW.due_at;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- An old snapshot cannot show which workers sleep now.
        PERFORM consign.wake(n, v_due_at) FROM consign.queue n WHERE n.name = NEW.queue;
    ELSIF EXISTS (SELECT FROM consign.idle i WHERE i.queue = NEW.queue AND i.sleeps_until > greatest(v_due_at, v_now)) THEN
        -- In a statement of its own: PL/pgSQL resolves the fields of NEW before it evaluates a condition.
        IF TG_TABLE_NAME = 'waiting' THEN
            PERFORM FROM consign.group_head t WHERE t.queue = NEW.queue AND t."group" = NEW."group" AND t.message_id IS NULL;
            IF NOT FOUND THEN
                RETURN NULL;
            END IF;
        END IF;
        PERFORM consign.take_idle(NEW.queue, v_due_at);
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.wake_workers() FROM PUBLIC;

-- Deferred: a transaction may stay open for long after its enqueue, and workers fall asleep meanwhile.
CREATE CONSTRAINT TRIGGER wake AFTER INSERT ON consign.ready
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION consign.wake_workers();
CREATE CONSTRAINT TRIGGER wake AFTER INSERT ON consign.waiting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION consign.wake_workers();
CREATE CONSTRAINT TRIGGER wake AFTER UPDATE OF message_id ON consign.group_head
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.message_id IS NOT NULL AND NEW.message_id IS NULL) EXECUTE FUNCTION consign.wake_workers();

-- Registers a worker as asleep on a queue, for p_limit or until something is due, unless something is due already.
-- `until`: how long until that, zero or less if something is due; NULL if nothing is scheduled. Not `registered`: no
-- commit will wake the worker, because something is due or the queue's policy has no `notify`.
--
-- To be committed before consign.look, which must find nothing before the worker sleeps. A registration replaces the
-- earlier one of its p_worker: everything that waits on its own, also a thread of a process, has an id of its own.
CREATE FUNCTION consign.register_idle(p_queue text, p_worker uuid, p_limit interval, OUT until interval, OUT registered boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_now timestamptz := consign.clock();
BEGIN
    PERFORM consign.require_read_committed();
    IF p_worker IS NULL OR p_limit IS NULL OR consign.exact(p_limit) NOT BETWEEN interval '0' AND interval '1 minute' THEN
        RAISE EXCEPTION 'rest: worker must not be null, limit from 0 to 1 minute' USING ERRCODE = 'CN006';
    END IF;
    until := consign.until_due(p_queue);
    registered := coalesce(until > interval '0', true) AND ((consign.known_queue(p_queue)).policy->>'notify')::boolean;
    IF registered THEN
        -- Also recent rows of workers that are gone; older ones are costly to reach, see the index.
        DELETE FROM consign.idle WHERE ctid = ANY (ARRAY(
            SELECT i.ctid FROM consign.idle i
                WHERE i.queue = p_queue AND i.sleeps_until > v_now - interval '2 minutes'
                    AND (i.worker = p_worker OR i.sleeps_until <= v_now)
                FOR UPDATE SKIP LOCKED));
        INSERT INTO consign.idle (queue, sleeps_until, worker) VALUES (p_queue, v_now + least(p_limit, until), p_worker);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.register_idle(text, uuid, interval) FROM PUBLIC;

-- The look after consign.register_idle. `until`: as there. `committing`: transactions that looked for sleeping workers and have
-- not ended yet; those that looked too early to see this one are among them, so look again until none is left of
-- those that the first look returned (p_committing), or of any if it is NULL.
CREATE FUNCTION consign.look(p_queue text, p_committing text[] DEFAULT NULL, OUT until interval, OUT committing text[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    committing := ARRAY(
        SELECT l.virtualtransaction FROM pg_locks l
            WHERE l.locktype = 'relation' AND l.relation = 'consign.idle'::regclass AND l.mode = 'AccessShareLock'
                AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                AND l.pid IS DISTINCT FROM pg_backend_pid()
                AND (p_committing IS NULL OR l.virtualtransaction = ANY (p_committing)));
    -- Afterwards, with a new snapshot: what a transaction missing from the list has committed is seen.
    until := consign.until_due(p_queue);
END $$;
REVOKE ALL ON FUNCTION consign.look(text, text[]) FROM PUBLIC;

-- Deletes the registrations of workers that are gone.
CREATE FUNCTION consign.forget_idle() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM consign.idle WHERE ctid = ANY (ARRAY(
        SELECT i.ctid FROM consign.idle i WHERE i.sleeps_until <= consign.clock() FOR UPDATE SKIP LOCKED));
END $$;
REVOKE ALL ON FUNCTION consign.forget_idle() FROM PUBLIC;
