-- Retention: history leaves by whole ranges, in steps that are a transaction each and can be repeated after a crash.
--
--   prepare_ranges    creates ranges ahead of the ids in use, closes those that are full or old
--   begin_departure   chooses a closed range, fixes which of its messages leave
--   record_archive    records that an archive holds them
--   depart            puts the messages that stay into a range of their own and detaches the old one; then apps delete their
--                     rows of those that left; then it drops the old range
--
-- One process at a time takes these steps, under a lease: every step locks its row, so that no other process takes over
-- while it runs. Exclusive locks are waited for no longer than 50 ms, since everyone else waits behind them.

CREATE FUNCTION consign.lease_maintenance(p_owner text, p_token uuid, p_ttl interval) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_token uuid;
BEGIN
    IF NOT consign.is_name(p_owner, 256) OR (consign.exact(p_ttl) BETWEEN interval '1 millisecond' AND interval '24 hours') IS NOT TRUE THEN
        RAISE EXCEPTION 'maintenance: owner must be 1 to 256 bytes without control characters, ttl from 1 ms to 24 h' USING ERRCODE = 'CN006';
    END IF;
    UPDATE consign.maintenance m
        SET owner = p_owner, expires_at = consign.clock() + p_ttl,
            token = CASE WHEN m.token = p_token THEN m.token ELSE gen_random_uuid() END
        WHERE m.expires_at <= consign.clock() OR m.token = p_token
        RETURNING m.token INTO v_token;
    RETURN v_token;
END $$;
REVOKE ALL ON FUNCTION consign.lease_maintenance(text, uuid, interval) FROM PUBLIC;

-- Whether a token's lease of the maintenance lives. Locks it until the transaction ends.
CREATE FUNCTION consign.maintains(p_token uuid) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM FROM consign.maintenance m WHERE m.token = p_token FOR UPDATE;
    -- The clock is read under the lock.
    RETURN EXISTS (SELECT FROM consign.maintenance m WHERE m.token = p_token AND m.expires_at > consign.clock());
END $$;
REVOKE ALL ON FUNCTION consign.maintains(uuid) FROM PUBLIC;

-- Gives the last range an end, and creates another last one. The partitions are detached and attached with new bounds,
-- which is immediate if they are empty, or if a constraint says that their ids are below the end.
CREATE FUNCTION consign.end_last_range(p_range consign.range, p_until bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_parent text;
    v_child  text;
BEGIN
    LOCK TABLE consign.message, consign.attempt, consign.late, consign.audit IN ACCESS EXCLUSIVE MODE;
    FOREACH v_parent IN ARRAY ARRAY['message', 'attempt', 'late', 'audit'] LOOP
        v_child := v_parent || '_' || p_range.number;
        EXECUTE format('ALTER TABLE consign.%I DETACH PARTITION consign.%I', v_parent, v_child);
        EXECUTE format('ALTER TABLE consign.%I ATTACH PARTITION consign.%I FOR VALUES FROM (%s) TO (%s)', v_parent, v_child, p_range.first, p_until);
        IF EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = ('consign.' || v_child)::regclass AND c.conname = 'range_end') THEN
            EXECUTE format('ALTER TABLE consign.%I DROP CONSTRAINT range_end', v_child);
        END IF;
    END LOOP;
    UPDATE consign.range r SET until = p_until WHERE r.number = p_range.number;
    PERFORM consign.make_range(p_until, p_range.until);
END $$;
REVOKE ALL ON FUNCTION consign.end_last_range(consign.range, bigint) FROM PUBLIC;

-- Ends the last range below p_until although it has rows, in three calls: a constraint, its validation, which reads the
-- rows without locking anyone out, and the end. An insert at or above p_until fails until then, so it must be far away.
CREATE FUNCTION consign.end_full_range(p_range consign.range, p_until bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_parent text;
    v_child  text;
    v_until  bigint;
    v_valid  boolean;
BEGIN
    SELECT min(substring(pg_get_constraintdef(c.oid) FROM '< ''?(\d+)')::bigint), bool_and(c.convalidated) INTO v_until, v_valid
        FROM pg_constraint c
        WHERE c.conname = 'range_end' AND c.conrelid = ANY (ARRAY(
            SELECT ('consign.' || p || '_' || p_range.number)::regclass FROM unnest(ARRAY['message', 'attempt', 'late', 'audit']) p));
    IF v_valid THEN
        LOCK TABLE consign.queue IN ACCESS EXCLUSIVE MODE;
        PERFORM consign.end_last_range(p_range, v_until);
        RETURN;
    END IF;
    FOREACH v_parent IN ARRAY ARRAY['message', 'attempt', 'late', 'audit'] LOOP
        v_child := v_parent || '_' || p_range.number;
        IF v_valid IS NULL THEN
            EXECUTE format('ALTER TABLE consign.%I ADD CONSTRAINT range_end CHECK (%I >= %s AND %2$I < %4$s) NOT VALID', v_child,
                           CASE v_parent WHEN 'message' THEN 'id' ELSE 'message_id' END, p_range.first, p_until);
        ELSE
            EXECUTE format('ALTER TABLE consign.%I VALIDATE CONSTRAINT range_end', v_child);
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.end_full_range(consign.range, bigint) FROM PUBLIC;

-- The range in use, if its first message is older than p_age and it has an end. With an age of 0 any message is old enough,
-- also one from before the clock was set back.
CREATE FUNCTION consign.aged_range(p_last bigint, p_age interval) RETURNS consign.range
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT r FROM consign.range r
        WHERE r.closed_at IS NULL AND r.first <= p_last AND r.until > p_last + 1 AND r.until < 9223372036854775807
            AND (SELECT p_age = interval '0' OR m.created_at <= consign.clock() - p_age FROM consign.message m
                     WHERE m.id >= r.first AND m.id < r.until ORDER BY m.id LIMIT 1) $$;
REVOKE ALL ON FUNCTION consign.aged_range(bigint, interval) FROM PUBLIC;

-- The last id reserved for a message.
CREATE FUNCTION consign.last_id() RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$ SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END FROM consign.message_id_seq s $$;
REVOKE ALL ON FUNCTION consign.last_id() FROM PUBLIC;

-- How many ranges with an end lie ahead of the ids in use.
CREATE FUNCTION consign.ranges_ahead() RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$ SELECT count(*) FROM consign.range r WHERE r.first > consign.last_id() AND r.until < 9223372036854775807 $$;
REVOKE ALL ON FUNCTION consign.ranges_ahead() FROM PUBLIC;

-- Creates ranges of p_messages ids until two are ahead of the ids in use, and closes ranges: those that are full, and the one
-- in use if its first message is older than p_age. No transaction will insert into a closed range.
CREATE FUNCTION consign.prepare_ranges(p_token uuid, p_messages bigint, p_age interval, OUT refusal text, OUT ranges int)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
    AS $$
DECLARE
    v_last  bigint;
    v_range consign.range;
BEGIN
    IF (p_messages BETWEEN 1000 AND 1000000000) IS NOT TRUE THEN
        RAISE EXCEPTION 'ranges: must have from 1000 to 1000000000 ids' USING ERRCODE = 'CN006';
    END IF;
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        refusal := 'lease_lost';
        RETURN;
    END IF;
    ranges := (SELECT count(*) FROM consign.range);
    v_last := consign.last_id();
    IF consign.ranges_ahead() >= 2 AND (consign.aged_range(v_last, p_age)).number IS NULL
        AND NOT EXISTS (SELECT FROM consign.range r WHERE r.closed_at IS NULL AND r.until <= v_last + 1)
    THEN
        RETURN;
    END IF;
    BEGIN
        SELECT * INTO STRICT v_range FROM consign.range r WHERE r.until = 9223372036854775807;
        IF consign.ranges_ahead() < 2 AND v_last >= v_range.first THEN
            -- Far away: the constraint must hold until the next calls.
            PERFORM consign.end_full_range(v_range, v_last + greatest(4 * p_messages, 100000000));
            RETURN;
        END IF;
        -- Whoever reserves ids has read this table and holds it until the end of its transaction: from here on there is
        -- no transaction with ids that it has not inserted.
        LOCK TABLE consign.queue IN ACCESS EXCLUSIVE MODE;
        WHILE consign.ranges_ahead() < 2 LOOP
            SELECT * INTO STRICT v_range FROM consign.range r WHERE r.until = 9223372036854775807;
            EXIT WHEN consign.last_id() >= v_range.first;
            PERFORM consign.end_last_range(v_range, v_range.first + p_messages);
        END LOOP;
        v_last := consign.last_id();
        v_range := consign.aged_range(v_last, p_age);
        IF v_range.number IS NOT NULL THEN
            PERFORM setval('consign.message_id_seq', v_range.until - 1);
            v_last := v_range.until - 1;
        END IF;
        UPDATE consign.range r SET closed_at = consign.clock() WHERE r.closed_at IS NULL AND r.until <= v_last + 1;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        refusal := 'locked';
        RETURN;
    END;
    ranges := (SELECT count(*) FROM consign.range);
END $$;
REVOKE ALL ON FUNCTION consign.prepare_ranges(uuid, bigint, interval) FROM PUBLIC;

-- Until when the events of messages must have happened for the messages to leave now, by queue; with the hook that knows
-- which of them are needed longer, and the time that it is asked about. p_by_size: the database is too large, and delivered
-- messages leave before their time.
CREATE FUNCTION consign.cutoffs(p_now timestamptz, p_by_size boolean) RETURNS jsonb
    -- Two of them are compared as text.
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO'
    AS $$
    SELECT coalesce(jsonb_object_agg(q.name, jsonb_strip_nulls(jsonb_build_object(
                   'keep', p_now - interval '1 millisecond' * CASE WHEN p_by_size THEN 0 ELSE 1 END * (q.policy->>'keep_ms')::bigint,
                   'keep_dead', p_now - interval '1 millisecond' * (q.policy->>'keep_dead_ms')::bigint,
                   'archive', q.policy->'archive',
                   'needed', q.hooks->>'needed',
                   'at', CASE WHEN q.hooks ? 'needed' THEN p_now END))), '{}')
        FROM consign.queue q
        WHERE q.policy->>'keep_ms' IS NOT NULL OR q.policy->>'keep_dead_ms' IS NOT NULL $$;
REVOKE ALL ON FUNCTION consign.cutoffs(timestamptz, boolean) FROM PUBLIC;

-- The messages from p_first up to p_until that apps still need, by the hooks in p_cutoffs.
CREATE FUNCTION consign.needed(p_first bigint, p_until bigint, p_cutoffs jsonb) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue record;
BEGIN
    FOR v_queue IN SELECT c.key AS name, c.value AS cutoff FROM jsonb_each(p_cutoffs) c WHERE c.value ? 'needed' LOOP
        RETURN QUERY EXECUTE format('SELECT %s($1, $2, $3, $4)', v_queue.cutoff->>'needed')
            USING v_queue.name, p_first, p_until, (v_queue.cutoff->>'at')::timestamptz;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.needed(bigint, bigint, jsonb) FROM PUBLIC;

-- The messages from p_first up to p_until that leave: finished, with their last event at or before the cutoff of their queue,
-- and not needed by an app. A dead head of an ordered group stays.
CREATE FUNCTION consign.leaving(p_first bigint, p_until bigint, p_cutoffs jsonb)
    RETURNS TABLE (id bigint, queue text, key text, died boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
    AS $$
    SELECT f.id, f.queue, f.key, f.died
        FROM (SELECT m.id, m.queue, m.key, m."group", d.message_id IS NOT NULL AS died, greatest(l.at, d.at) AS at,
                     CASE WHEN d.message_id IS NOT NULL THEN c.keep_dead WHEN l.delivered THEN c.keep END AS cutoff
                  FROM consign.message m
                  JOIN (SELECT q.key AS queue, (q.value->>'keep')::timestamptz AS keep, (q.value->>'keep_dead')::timestamptz AS keep_dead
                            FROM jsonb_each(p_cutoffs) q) c ON c.queue = m.queue
                  JOIN (SELECT a.message_id, max(a.finished_at) AS at, bool_or(a.outcome = 'delivered') AS delivered
                            FROM consign.attempt a WHERE a.message_id >= p_first AND a.message_id < p_until GROUP BY a.message_id) l
                      ON l.message_id = m.id
                  LEFT JOIN consign.dead d ON d.message_id = m.id AND d.message_id >= p_first AND d.message_id < p_until
                  WHERE m.id >= p_first AND m.id < p_until) f
        WHERE f.at <= f.cutoff
            AND NOT EXISTS (SELECT FROM consign.late e WHERE e.message_id = f.id AND e.message_id >= p_first AND e.message_id < p_until
                                AND e.at > f.cutoff)
            AND NOT EXISTS (SELECT FROM consign.audit u WHERE u.message_id = f.id AND u.message_id >= p_first AND u.message_id < p_until
                                AND u.at > f.cutoff)
            AND NOT EXISTS (SELECT FROM consign.needed(p_first, p_until, p_cutoffs) n (id) WHERE n.id = f.id)
            AND NOT (f.died AND EXISTS (SELECT FROM consign.group_head t
                                            WHERE t.queue = f.queue AND t."group" = f."group" AND t.message_id = f.id)) $$;
REVOKE ALL ON FUNCTION consign.leaving(bigint, bigint, jsonb) FROM PUBLIC;

-- Every message that may leave now.
CREATE FUNCTION consign.may_leave() RETURNS TABLE (id bigint, queue text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT l.id, l.queue FROM consign.leaving(-9223372036854775808, 9223372036854775807, consign.cutoffs(consign.clock(), false)) l $$;
REVOKE ALL ON FUNCTION consign.may_leave() FROM PUBLIC;

-- Gives up a departure whose messages have changed; called before the change is made. One that has detached its range
-- already is not concerned: its messages are gone.
CREATE FUNCTION consign.stop_departure(p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM consign.departure d
        WHERE d.state IN ('open', 'archived') AND EXISTS (SELECT FROM unnest(p_ids) u WHERE u >= d.first AND u < d.until);
END $$;
REVOKE ALL ON FUNCTION consign.stop_departure(bigint[]) FROM PUBLIC;

-- The departure under way, or a new one: of the first closed range that messages may leave from, together with the range
-- before it if that holds what stayed there. All NULL: no message may leave now. p_by_size: see consign.cutoffs.
CREATE FUNCTION consign.begin_departure(p_token uuid, p_by_size boolean DEFAULT false, OUT refusal text, OUT departure consign.departure)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    -- So many messages are copied while everyone waits.
    v_stay_max CONSTANT int := 1000;
    v_now      timestamptz := consign.clock();
    v_cutoffs  jsonb := consign.cutoffs(v_now, p_by_size);
    v_newest   timestamptz;
    v_range    consign.range;
    v_first    bigint;
    v_found    record;
    v_stay     bigint;
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        refusal := 'lease_lost';
        RETURN;
    END IF;
    SELECT * INTO departure FROM consign.departure d WHERE d.state <> 'over';
    IF FOUND THEN
        RETURN;
    END IF;
    IF v_cutoffs = '{}' THEN
        UPDATE consign.range r SET stay = NULL WHERE r.stay IS NOT NULL;
        RETURN;
    END IF;
    v_newest := (SELECT max(greatest((q.value->>'keep')::timestamptz, (q.value->>'keep_dead')::timestamptz)) FROM jsonb_each(v_cutoffs) q);
    FOR v_range IN SELECT * FROM consign.range r WHERE r.closed_at IS NOT NULL ORDER BY r.first LOOP
        -- Ids grow with time: if many of the last messages are younger than any queue's cutoff, too many would stay.
        CONTINUE WHEN (SELECT m.created_at > v_newest FROM consign.message m
                           WHERE m.id >= v_range.first AND m.id < v_range.until ORDER BY m.id DESC OFFSET v_stay_max LIMIT 1);
        -- Together with what stayed of the range before, so that there are few; alone if too many would stay.
        FOR v_first IN
            SELECT r.first FROM consign.range r WHERE r.until = v_range.first AND r.is_rest AND NOT v_range.is_rest
            UNION ALL SELECT v_range.first ORDER BY 1
        LOOP
            -- One statement, so that all of it is from one snapshot.
            WITH leaving AS MATERIALIZED (SELECT l.id, l.queue, l.died FROM consign.leaving(v_first, v_range.until, v_cutoffs) l)
            SELECT (SELECT jsonb_object_agg(q.queue, q.count) FROM (SELECT l.queue, count(*) AS count FROM leaving l GROUP BY l.queue) q) AS counts,
                   (SELECT count(*) FROM leaving) AS messages, (SELECT count(*) FROM leaving l WHERE l.died) AS died,
                   (SELECT count(*) FROM consign.late e JOIN leaving l ON l.id = e.message_id
                        WHERE e.message_id >= v_first AND e.message_id < v_range.until) AS late,
                   (SELECT count(*) FROM consign.erasure e WHERE e.message_id >= v_first AND e.message_id < v_range.until) AS erased,
                   (SELECT count(*) FROM consign.audit u WHERE u.message_id >= greatest(v_first, 1) AND u.message_id < v_range.until) AS audit,
                   ARRAY(SELECT m.id FROM consign.message m
                             WHERE m.id >= v_first AND m.id < v_range.until AND NOT EXISTS (SELECT FROM leaving l WHERE l.id = m.id)
                             LIMIT v_stay_max + 1) AS stay
                INTO v_found;
            v_stay := NULL;
            IF v_found.messages > 0 AND cardinality(v_found.stay) > v_stay_max THEN
                v_stay := (SELECT count(*) FROM consign.message m WHERE m.id >= v_first AND m.id < v_range.until) - v_found.messages;
            END IF;
            UPDATE consign.range r SET stay = v_stay WHERE r.number = v_range.number AND r.stay IS DISTINCT FROM v_stay;
            CONTINUE WHEN v_found.messages = 0 OR cardinality(v_found.stay) > v_stay_max;
            -- What stayed has times of its own. Replacing the range for every one of them would lock everyone out each time.
            CONTINUE WHEN v_range.is_rest AND NOT p_by_size AND v_range.created_at > v_now - interval '1 hour'
                AND v_found.messages * 10 < v_found.messages + cardinality(v_found.stay);
            INSERT INTO consign.departure (first, until, at, cutoffs, by_size, messages, died, late, erased, audit, stay_ids, counts,
                                           must_archive, state)
                VALUES (v_first, v_range.until, v_now, v_cutoffs, p_by_size, v_found.messages, v_found.died, v_found.late, v_found.erased, v_found.audit,
                        v_found.stay, v_found.counts,
                        EXISTS (SELECT FROM jsonb_object_keys(v_found.counts) q WHERE (v_cutoffs->q->>'archive')::boolean), 'open')
                RETURNING * INTO departure;
            RETURN;
        END LOOP;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.begin_departure(uuid, boolean) FROM PUBLIC;

-- The next messages of a departure after p_after, by id, at most p_limit: all of its ids but those that stay, which is what
-- it will remove.
CREATE FUNCTION consign.departing(p_departure bigint, p_after bigint, p_limit int) RETURNS bigint[]
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_departure consign.departure;
BEGIN
    SELECT * INTO v_departure FROM consign.departure d WHERE d.id = p_departure AND d.state IN ('open', 'archived');
    RETURN ARRAY(SELECT m.id FROM consign.message m
                     WHERE m.id >= v_departure.first AND m.id < v_departure.until AND m.id > p_after
                         AND NOT m.id = ANY (v_departure.stay_ids)
                     ORDER BY m.id LIMIT p_limit);
END $$;
REVOKE ALL ON FUNCTION consign.departing(bigint, bigint, int) FROM PUBLIC;

CREATE FUNCTION consign.record_archive(p_token uuid, p_departure bigint, p_archive text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        RETURN 'lease_lost';
    END IF;
    IF p_archive IS NULL OR octet_length(p_archive) NOT BETWEEN 1 AND 2048 OR NOT consign.is_name(p_archive, 2048) THEN
        RAISE EXCEPTION 'archive: must be 1 to 2048 bytes without control characters' USING ERRCODE = 'CN006';
    END IF;
    UPDATE consign.departure d SET state = 'archived', archive = p_archive
        WHERE d.id = p_departure AND d.state IN ('open', 'archived');
    -- One that is leaving or over keeps what it has: the call may be a repeated one.
    RETURN CASE WHEN NOT EXISTS (SELECT FROM consign.departure d WHERE d.id = p_departure) THEN 'changed' END;
END $$;
REVOKE ALL ON FUNCTION consign.record_archive(uuid, bigint, text) FROM PUBLIC;

-- Replaces the ranges of a departure by one that holds what stays. The old partitions are detached, not dropped. Inserts
-- under one of these ids still find a range. False: its messages have changed.
--
-- A change that was under way when the departure began did not see it and could not give it up. It has committed by now, or
-- the lock could not be had: then a policy is another, a dead message has returned, a late result or an audit entry has come,
-- or a message was erased.
CREATE FUNCTION consign.detach_ranges(p_departure consign.departure) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_old    bigint[] := ARRAY(SELECT r.number FROM consign.range r
                                   WHERE r.first >= p_departure.first AND r.until <= p_departure.until ORDER BY r.first);
    v_new    bigint := nextval(pg_get_serial_sequence('consign.range', 'number'));
    v_stay   bigint[] := p_departure.stay_ids;
    v_parent text;
    v_child  text;
    v_number bigint;
BEGIN
    LOCK TABLE consign.message, consign.attempt, consign.late, consign.audit, consign.dead IN ACCESS EXCLUSIVE MODE;
    IF p_departure.cutoffs <> consign.cutoffs(p_departure.at, p_departure.by_size)
        OR p_departure.late <> (SELECT count(*) FROM consign.late e
                                WHERE e.message_id >= p_departure.first AND e.message_id < p_departure.until AND NOT e.message_id = ANY (v_stay))
        OR p_departure.audit <> (SELECT count(*) FROM consign.audit u
                                 WHERE u.message_id >= greatest(p_departure.first, 1) AND u.message_id < p_departure.until)
        OR p_departure.erased <> (SELECT count(*) FROM consign.erasure e
                                  WHERE e.message_id >= p_departure.first AND e.message_id < p_departure.until)
        OR (p_departure.died, p_departure.died) IS DISTINCT FROM
            (SELECT (count(*), count(*) FILTER (WHERE d.at <= p_departure.at)) FROM consign.dead d
                 WHERE d.message_id >= p_departure.first AND d.message_id < p_departure.until AND NOT d.message_id = ANY (v_stay))
    THEN
        RETURN false;
    END IF;
    -- By the primary key of message_key.
    UPDATE consign.message_key k SET died = true
        FROM consign.dead d JOIN consign.message m ON m.id = d.message_id AND m.id >= p_departure.first AND m.id < p_departure.until
        WHERE d.message_id >= p_departure.first AND d.message_id < p_departure.until AND NOT d.message_id = ANY (v_stay)
            AND k.queue = m.queue AND k.key = m.key AND k.message_id = m.id;
    FOREACH v_parent IN ARRAY ARRAY['message', 'attempt', 'late', 'audit'] LOOP
        v_child := v_parent || '_' || v_new;
        EXECUTE format('CREATE TABLE consign.%I (LIKE consign.%I INCLUDING ALL)', v_child, v_parent);
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON consign.%I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change()', v_child);
        EXECUTE format('INSERT INTO consign.%I SELECT * FROM consign.%I p WHERE p.%3$I = ANY ($1) AND p.%3$I BETWEEN %4$s AND %5$s', v_child, v_parent,
                       CASE v_parent WHEN 'message' THEN 'id' ELSE 'message_id' END, p_departure.first, p_departure.until - 1) USING v_stay;
        FOREACH v_number IN ARRAY v_old LOOP
            EXECUTE format('ALTER TABLE consign.%I DETACH PARTITION consign.%I', v_parent, v_parent || '_' || v_number);
        END LOOP;
        EXECUTE format('ALTER TABLE consign.%I ATTACH PARTITION consign.%I FOR VALUES FROM (%s) TO (%s)', v_parent, v_child,
                       CASE v_parent WHEN 'audit' THEN greatest(p_departure.first, 1) ELSE p_departure.first END, p_departure.until);
    END LOOP;
    DELETE FROM consign.range r WHERE r.number = ANY (v_old);
    DELETE FROM consign.range_count c WHERE c.number = ANY (v_old);
    INSERT INTO consign.range (number, first, until, created_at, closed_at, is_rest) OVERRIDING SYSTEM VALUE
        VALUES (v_new, p_departure.first, p_departure.until, consign.clock(), consign.clock(), true);
    PERFORM consign.count_departed(c.key, c.value::bigint, c.dead, 0)
        FROM (SELECT e.key, e.value, (SELECT count(*) FROM consign.dead d
                                          WHERE d.queue = e.key AND d.message_id >= p_departure.first AND d.message_id < p_departure.until
                                              AND NOT d.message_id = ANY (v_stay)) AS dead
                  FROM jsonb_each_text(p_departure.counts) e ORDER BY e.key) c;
    DELETE FROM consign.dead d
        WHERE d.message_id >= p_departure.first AND d.message_id < p_departure.until AND NOT d.message_id = ANY (v_stay);
    UPDATE consign.departure d SET state = 'leaving', detached = v_old WHERE d.id = p_departure.id;
    INSERT INTO consign.audit (at, actor, action, reason)
        SELECT consign.clock(), m.owner, 'depart', format('departure %s: %s messages from %s to %s, %s', p_departure.id,
                   p_departure.messages, greatest(p_departure.first, 1), p_departure.until - 1,
                   coalesce('archive ' || p_departure.archive, 'not archived'))
            FROM consign.maintenance m;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION consign.detach_ranges(consign.departure) FROM PUBLIC;

-- Takes the next step of a departure: detaches its ranges, lets apps follow, drops them.
CREATE FUNCTION consign.depart(p_token uuid, p_departure bigint, OUT refusal text, OUT removed bigint, OUT is_over boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
    AS $$
DECLARE
    v_limit     CONSTANT int := 1000;
    v_departure consign.departure;
    v_hook      record;
    v_count     bigint;
    v_number    bigint;
    v_parent    text;
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        refusal := 'lease_lost';
        RETURN;
    END IF;
    removed := 0;
    is_over := false;
    BEGIN
        SELECT * INTO v_departure FROM consign.departure d WHERE d.id = p_departure FOR UPDATE;
        IF NOT FOUND THEN
            refusal := 'changed';
        ELSIF v_departure.state = 'over' THEN
            is_over := true;
        ELSIF v_departure.state = 'open' AND v_departure.must_archive THEN
            refusal := 'not_archived';
        ELSIF v_departure.state <> 'leaving' THEN
            IF consign.detach_ranges(v_departure) THEN
                removed := v_departure.messages;
            ELSE
                refusal := 'changed';
                DELETE FROM consign.departure d WHERE d.id = v_departure.id;
            END IF;
        ELSE
            -- Apps delete their rows first, some in each call.
            FOR v_hook IN
                SELECT q.name, q.hooks->>'departed' AS function FROM consign.queue q
                    WHERE q.hooks ? 'departed' AND v_departure.counts ? q.name ORDER BY q.name
            LOOP
                EXECUTE format('SELECT %s($1, $2, $3, $4, $5)', v_hook.function) INTO v_count
                    USING v_hook.name, v_departure.first, v_departure.until, v_departure.stay_ids, v_limit;
                IF v_count >= v_limit THEN
                    RETURN;
                END IF;
            END LOOP;
            FOREACH v_number IN ARRAY v_departure.detached LOOP
                FOREACH v_parent IN ARRAY ARRAY['message', 'attempt', 'late', 'audit'] LOOP
                    EXECUTE format('DROP TABLE IF EXISTS consign.%I', v_parent || '_' || v_number);
                END LOOP;
            END LOOP;
            UPDATE consign.departure d SET state = 'over', stay_ids = '{}' WHERE d.id = v_departure.id;
            is_over := true;
        END IF;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        refusal := 'locked';
    END;
END $$;
REVOKE ALL ON FUNCTION consign.depart(uuid, bigint) FROM PUBLIC;

-- Deletes up to p_limit keys of messages that have left, where their queue keeps keys no longer.
CREATE FUNCTION consign.forget_keys(p_token uuid, p_limit int, OUT refusal text, OUT forgotten bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_gone record;
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        refusal := 'lease_lost';
        RETURN;
    END IF;
    forgotten := 0;
    FOR v_gone IN WITH past AS (
        SELECT k.queue, k.key FROM consign.queue q
            JOIN consign.message_key k ON k.queue = q.name
                AND k.at <= consign.clock() - interval '1 millisecond' * (q.policy->>'keep_keys_ms')::bigint
            WHERE NOT EXISTS (SELECT FROM consign.message m WHERE m.id = k.message_id)
            LIMIT p_limit),
    gone AS (DELETE FROM consign.message_key k USING past WHERE k.queue = past.queue AND k.key = past.key RETURNING k.queue, k.message_id)
    SELECT g.queue, array_agg(g.message_id) AS ids, (SELECT q.hooks->>'forgotten' FROM consign.queue q WHERE q.name = g.queue) AS function
        FROM gone g GROUP BY g.queue ORDER BY g.queue
    LOOP
        forgotten := forgotten + cardinality(v_gone.ids);
        IF v_gone.function IS NOT NULL THEN
            EXECUTE format('SELECT %s($1, $2)', v_gone.function) USING v_gone.queue, v_gone.ids;
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.forget_keys(uuid, int) FROM PUBLIC;
