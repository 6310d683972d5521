-- Retention: history leaves by whole ranges, in steps that are a transaction each and can be repeated after a crash.
--
--   prepare_ranges    creates ranges ahead of the ids in use, closes those that are full or old
--   begin_departure   chooses a closed range and copies what stays into a new one, page by page: the others leave
--   record_archive    records that an archive holds them
--   depart            puts the new range into the place of the old one; then apps delete their rows of the messages that left;
--                     then it drops the old range
--
-- One process at a time takes these steps, under a lease: every step locks its row, so that no other process takes over
-- while it runs. Exclusive locks are waited for no longer than 50 ms in all, since everyone else waits behind them.

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

-- Creates ranges of p_messages ids until two are ahead of the ids in use, and closes ranges: those that are full, and the one
-- in use if its first message is older than p_age. No transaction will insert into a closed range.
CREATE FUNCTION consign.prepare_ranges(p_token uuid, p_messages bigint, p_age interval, OUT refusal text, OUT ranges int)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
    AS $$
DECLARE
    v_last  bigint;
    v_range consign.range;
    v_aged  consign.range;
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
        -- Whoever reserves ids has read this table and holds it until the end of its transaction: from here on there is
        -- no transaction with ids that it has not inserted.
        LOCK TABLE consign.queue IN ACCESS EXCLUSIVE MODE;
        -- Before the last range gets an end: the ids are moved there once that is committed, since a rollback leaves them moved.
        v_aged := consign.aged_range(consign.last_id(), p_age);
        WHILE consign.ranges_ahead() < 2 LOOP
            SELECT * INTO STRICT v_range FROM consign.range r WHERE r.until = 9223372036854775807;
            -- Far away if messages went there while no maintenance ran: the constraint allows no other end.
            PERFORM consign.end_last_range(v_range, CASE WHEN consign.last_id() < v_range.first THEN v_range.first + p_messages
                                                         ELSE consign.last_range_end(v_range.first) END);
        END LOOP;
        v_last := consign.last_id();
        IF v_aged.number IS NOT NULL THEN
            v_last := setval('consign.message_id_seq', v_aged.until - 1);
        END IF;
        UPDATE consign.range r SET closed_at = consign.clock() WHERE r.closed_at IS NULL AND r.until <= v_last + 1;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        refusal := 'locked';
        RETURN;
    END;
    ranges := (SELECT count(*) FROM consign.range);
END $$;
REVOKE ALL ON FUNCTION consign.prepare_ranges(uuid, bigint, interval) FROM PUBLIC;

-- Follows what happens to the messages of a departure while it is prepared: a trigger on the old partitions, by row. The
-- argument is the number of the new range.
--
-- An attempt, and what is recorded about a message that stays, is copied into the new range by the transaction that
-- records it; so is what is recorded about a message that is not decided yet, which then stays. What would change a message
-- that leaves, or rows that were copied, stops the departure. Every transaction meets the trigger, also one with an old snapshot: creating it waited for those that had
-- written to the partition, and the others find it.
CREATE FUNCTION consign.follow_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_copies boolean := false;
BEGIN
    IF TG_OP = 'INSERT' THEN
        EXECUTE format('SELECT $1 OR EXISTS (SELECT FROM consign.%I m WHERE m.id = $2)', 'message_' || TG_ARGV[0])
            INTO v_copies USING TG_ARGV[1] = 'attempt', NEW.message_id;
    END IF;
    IF TG_OP = 'INSERT' AND NOT v_copies THEN
        -- Until this transaction ends, no page is decided.
        PERFORM FROM consign.departure d
            WHERE d.number = TG_ARGV[0]::bigint AND d.state = 'copying' AND d.next_id <= NEW.message_id FOR UPDATE;
        v_copies := FOUND;
    END IF;
    IF v_copies THEN
        EXECUTE format('INSERT INTO consign.%I SELECT ($1).* ON CONFLICT DO NOTHING', TG_ARGV[1] || '_' || TG_ARGV[0]) USING NEW;
        RETURN NULL;
    END IF;
    UPDATE consign.departure d SET state = 'stopped' WHERE d.number = TG_ARGV[0]::bigint AND d.state IN ('copying', 'open', 'archived');
    IF NOT FOUND AND NOT EXISTS (SELECT FROM consign.departure d WHERE d.number = TG_ARGV[0]::bigint) THEN
        RAISE EXCEPTION 'could not serialize access: a departure of these messages began after the snapshot of this transaction was taken'
            USING ERRCODE = '40001', HINT = 'Repeat the transaction.';
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.follow_change() FROM PUBLIC;

-- Creates the tables of the range that a departure leaves behind, and follows the changes of the old ones from here on. The
-- constraint spares the scan when they become partitions.
CREATE FUNCTION consign.follow_departure(p_departure consign.departure) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_new    bigint := nextval(pg_get_serial_sequence('consign.range', 'number'));
    v_parent text;
    v_child  text;
    v_number bigint;
BEGIN
    FOREACH v_parent IN ARRAY ARRAY['message', 'attempt', 'late', 'audit'] LOOP
        v_child := v_parent || '_' || v_new;
        EXECUTE format('CREATE TABLE consign.%I (LIKE consign.%I INCLUDING ALL)', v_child, v_parent);
        EXECUTE format('ALTER TABLE consign.%I ADD CONSTRAINT range_bounds CHECK (%I >= %L::bigint AND %2$I < %4$L::bigint)', v_child,
                       CASE v_parent WHEN 'message' THEN 'id' ELSE 'message_id' END,
                       CASE v_parent WHEN 'audit' THEN greatest(p_departure.first, 1) ELSE p_departure.first END, p_departure.until);
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON consign.%I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change()', v_child);
        FOR v_number IN SELECT r.number FROM consign.range r WHERE r.first >= p_departure.first AND r.until <= p_departure.until LOOP
            -- No message is inserted into a closed range.
            EXECUTE format('CREATE TRIGGER follow_change AFTER %s UPDATE OR DELETE ON consign.%I '
                           'FOR EACH ROW EXECUTE FUNCTION consign.follow_change(%L, %L)',
                           CASE v_parent WHEN 'message' THEN '' ELSE 'INSERT OR' END, v_parent || '_' || v_number, v_new, v_parent);
        END LOOP;
    END LOOP;
    UPDATE consign.departure d SET number = v_new, next_id = d.first WHERE d.id = p_departure.id;
END $$;
REVOKE ALL ON FUNCTION consign.follow_departure(consign.departure) FROM PUBLIC;

-- Removes what a stopped departure has made, which is no part of the history.
CREATE FUNCTION consign.clear_departure(p_departure consign.departure) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
    AS $$
DECLARE
    v_parent text;
    v_number bigint;
BEGIN
    FOREACH v_parent IN ARRAY ARRAY['message', 'attempt', 'late', 'audit'] LOOP
        EXIT WHEN p_departure.number IS NULL;
        FOR v_number IN SELECT r.number FROM consign.range r WHERE r.first >= p_departure.first AND r.until <= p_departure.until LOOP
            EXECUTE format('DROP TRIGGER IF EXISTS follow_change ON consign.%I', v_parent || '_' || v_number);
        END LOOP;
        EXECUTE format('DROP TABLE IF EXISTS consign.%I', v_parent || '_' || p_departure.number);
    END LOOP;
    DELETE FROM consign.departure d WHERE d.id = p_departure.id;
END $$;
REVOKE ALL ON FUNCTION consign.clear_departure(consign.departure) FROM PUBLIC;

-- Decides about the next messages of a departure, and copies those that stay, with what consign.follow_change has not copied.
CREATE FUNCTION consign.copy_page(p_departure consign.departure) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_nestloop = on SET jit = off
    AS $$
DECLARE
    -- So many are removed from consign.dead and consign.discarded while everyone waits; the others leave with the next departure.
    v_dead   CONSTANT int := 5000;
    v_first  bigint := p_departure.next_id;
    v_until  bigint := coalesce((SELECT m.id FROM consign.message m WHERE m.id >= p_departure.next_id AND m.id < p_departure.until
                                     ORDER BY m.id OFFSET 10000 LIMIT 1), p_departure.until);
    v_leaving record;
    v_parent text;
    v_stay   bigint;
    v_died   bigint[];
    v_discarded bigint[];
BEGIN
    -- A page that a crash of the server loses is copied again; every later commit that is waited for has it on the disk. Others
    -- need not wait behind its flush.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- A message that something was recorded about meanwhile stays.
    EXECUTE format('SELECT coalesce(array_agg(l.id), ''{}'') AS ids, array_agg(l.queue) AS queues, array_agg(l.key) AS keys, array_agg(l.died) AS died,
                               array_agg(l.discarded) AS discarded
                        FROM (SELECT o.*, row_number() OVER (PARTITION BY o.died OR o.discarded ORDER BY o.id) AS place FROM consign.leaving($1, $2, $3) o) l
                        WHERE (NOT (l.died OR l.discarded) OR l.place <= $4)
                            AND NOT EXISTS (SELECT FROM consign.%I a WHERE a.message_id = l.id AND a.message_id >= $1 AND a.message_id < $2)
                            AND NOT EXISTS (SELECT FROM consign.%I a WHERE a.message_id = l.id AND a.message_id >= $1 AND a.message_id < $2)
                            AND NOT EXISTS (SELECT FROM consign.%I a WHERE a.message_id = l.id AND a.message_id >= $1 AND a.message_id < $2)',
                   'attempt_' || p_departure.number, 'late_' || p_departure.number, 'audit_' || p_departure.number)
        INTO v_leaving USING v_first, v_until, p_departure.cutoffs, v_dead - cardinality(p_departure.dead_ids || p_departure.discarded_ids);
    v_died := ARRAY(SELECT l.id FROM unnest(v_leaving.ids, v_leaving.died) AS l (id, died) WHERE l.died);
    v_discarded := ARRAY(SELECT l.id FROM unnest(v_leaving.ids, v_leaving.discarded) AS l (id, discarded) WHERE l.discarded);
    -- Before they leave, because it takes long; of a message that is in the store nothing reads it. What has left stays dead.
    UPDATE consign.message_key k SET died = l.died, discarded = l.discarded
        FROM unnest(v_leaving.ids, v_leaving.queues, v_leaving.keys, v_leaving.died, v_leaving.discarded) AS l (id, queue, key, died, discarded)
        WHERE (l.died OR l.discarded) AND k.queue = l.queue AND k.key = l.key AND k.message_id = l.id
            AND (k.died, k.discarded) <> (l.died, l.discarded);
    UPDATE consign.message_key k SET died = false
        WHERE k.died AND k.message_id >= v_first AND k.message_id < v_until AND NOT k.message_id = ANY (v_died)
            AND EXISTS (SELECT FROM consign.message m WHERE m.id = k.message_id AND m.id >= v_first AND m.id < v_until);
    EXECUTE format('INSERT INTO consign.%I SELECT m.* FROM consign.message m
                        WHERE m.id >= $1 AND m.id < $2 AND NOT EXISTS (SELECT FROM unnest($3) l WHERE l = m.id) ORDER BY m.id',
                   'message_' || p_departure.number) USING v_first, v_until, v_leaving.ids;
    GET DIAGNOSTICS v_stay = ROW_COUNT;
    FOREACH v_parent IN ARRAY ARRAY['attempt', 'late', 'audit'] LOOP
        EXECUTE format('INSERT INTO consign.%I SELECT o.* FROM consign.%I o
                            WHERE o.message_id >= greatest($1, 1) AND o.message_id < $2 AND NOT EXISTS (SELECT FROM unnest($3) l WHERE l = o.message_id)
                            ORDER BY o.message_id ON CONFLICT DO NOTHING',
                       v_parent || '_' || p_departure.number, v_parent) USING v_first, v_until, v_leaving.ids;
    END LOOP;
    UPDATE consign.departure d SET next_id = v_until, stay = d.stay + v_stay, messages = d.messages + cardinality(v_leaving.ids),
            -- Written anew only with more: they may be long.
            dead_ids = CASE WHEN v_died = '{}' THEN d.dead_ids ELSE d.dead_ids || v_died END,
            discarded_ids = CASE WHEN v_discarded = '{}' THEN d.discarded_ids ELSE d.discarded_ids || v_discarded END,
            counts = (SELECT coalesce(jsonb_object_agg(c.queue, jsonb_build_object('messages', c.messages, 'dead', c.dead, 'discarded', c.discarded)), '{}')
                          FROM (SELECT q.queue, sum(q.messages) AS messages, sum(q.dead) AS dead, sum(q.discarded) AS discarded
                                    FROM (SELECT e.key AS queue, (e.value->>'messages')::bigint AS messages, (e.value->>'dead')::bigint AS dead,
                                                 (e.value->>'discarded')::bigint AS discarded
                                              FROM jsonb_each(d.counts) e
                                          UNION ALL SELECT l.queue, 1, l.died::int, l.discarded::int
                                              FROM unnest(v_leaving.queues, v_leaving.died, v_leaving.discarded) AS l (queue, died, discarded)) q
                                    GROUP BY q.queue) c)
        WHERE d.id = p_departure.id;
    -- It is decided which messages leave. If none does, what was found before has changed.
    UPDATE consign.departure d SET state = CASE WHEN d.messages > 0 THEN 'open' ELSE 'stopped' END,
            must_archive = EXISTS (SELECT FROM jsonb_object_keys(d.counts) q WHERE (d.cutoffs->q->>'archive')::boolean)
        WHERE d.id = p_departure.id AND d.next_id = d.until;
END $$;
REVOKE ALL ON FUNCTION consign.copy_page(consign.departure) FROM PUBLIC;

-- Finds the next closed range that is worth a departure, and begins it. Replacing a range costs as much as what stays: it
-- pays if a tenth of the messages leaves, if few stay, or after a day. Returns why none was found: `no_archive` if others
-- require one.
CREATE FUNCTION consign.find_departure(p_by_size boolean, p_has_archive boolean) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    -- A range with more messages is not looked at by every pass, but after a millisecond per message.
    v_small   CONSTANT int := 10000;
    v_few     CONSTANT int := 1000;
    -- Ranges are left behind side by side; they become one up to this size.
    v_joined  CONSTANT int := 100000;
    v_started CONSTANT timestamptz := clock_timestamp();
    v_now     timestamptz := consign.clock();
    v_cutoffs jsonb := consign.cutoffs(v_now, p_by_size, p_has_archive);
    v_all_cutoffs jsonb := consign.cutoffs(v_now, p_by_size, true);
    v_refusal text;
    v_range   consign.range;
    v_found   jsonb;
    v_next    timestamptz;
    v_all     bigint;
    v_leave   bigint;
    v_first   bigint;
BEGIN
    FOR v_range IN
        SELECT * FROM consign.range r
            WHERE r.closed_at IS NOT NULL AND NOT consign.is_looked_at(CASE WHEN p_by_size THEN r.size_look_at ELSE r.look_at END, v_now)
            ORDER BY r.first
    LOOP
        EXIT WHEN v_all_cutoffs = '{}' OR clock_timestamp() > v_started + interval '10 seconds';
        v_found := consign.look_at_range(v_range, v_all_cutoffs);
        CONTINUE WHEN v_found IS NULL;
        v_leave := (SELECT coalesce(sum(e.value::bigint), 0) FROM jsonb_each_text(v_found) e WHERE v_cutoffs ? e.key);
        v_all := (SELECT count(*) FROM consign.message m WHERE m.id >= v_range.first AND m.id < v_range.until);
        IF v_leave > 0 AND (v_leave * 10 >= v_all OR v_range.closed_at <= v_now - interval '1 day'
                            OR v_all - v_leave <= v_few AND (p_by_size OR NOT v_range.is_rest))
        THEN
            v_first := coalesce((SELECT r.first FROM consign.range r
                                     WHERE r.until = v_range.first AND r.is_rest AND NOT v_range.is_rest
                                         AND v_all - v_leave + (SELECT count(*) FROM consign.message m WHERE m.id >= r.first AND m.id < r.until) <= v_joined),
                                v_range.first);
            INSERT INTO consign.departure (first, until, at, cutoffs, by_size, has_archive)
                VALUES (v_first, v_range.until, v_now, v_cutoffs, p_by_size, p_has_archive);
            RETURN NULL;
        END IF;
        IF EXISTS (SELECT FROM jsonb_object_keys(v_found) q WHERE NOT v_cutoffs ? q) THEN
            v_refusal := 'no_archive';
        END IF;
        IF v_all > v_small THEN
            v_next := v_now + least(interval '1 millisecond' * v_all, interval '1 day');
            IF p_by_size THEN
                UPDATE consign.range r SET size_look_at = v_next WHERE r.number = v_range.number;
            ELSE
                UPDATE consign.range r SET look_at = v_next, may_leave = v_found WHERE r.number = v_range.number;
            END IF;
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM consign.range r CROSS JOIN jsonb_object_keys(r.may_leave) q
                   WHERE consign.is_looked_at(r.look_at, v_now) AND NOT v_cutoffs ? q AND v_all_cutoffs ? q)
    THEN
        v_refusal := 'no_archive';
    END IF;
    RETURN v_refusal;
END $$;
REVOKE ALL ON FUNCTION consign.find_departure(boolean, boolean) FROM PUBLIC;

-- The departure under way, or a new one. While it is `copying`, a call copies a page of what stays, in a transaction of its own;
-- then its messages are fixed. All NULL: none was found. p_by_size, p_has_archive: see consign.cutoffs.
--
-- A crash between two calls leaves the departure as the last one committed it: the new range is unknown to the history until
-- it takes its place, and the trigger goes on copying.
CREATE FUNCTION consign.begin_departure(p_token uuid, p_by_size boolean DEFAULT false, p_has_archive boolean DEFAULT true, OUT refusal text, OUT departure consign.departure)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
    AS $$
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        refusal := 'lease_lost';
        RETURN;
    END IF;
    BEGIN
        -- One that needs an archive was begun by a process that had one.
        SELECT * INTO departure FROM consign.departure d
            WHERE d.state IN ('copying', 'stopped') OR d.state = 'open' AND d.must_archive AND NOT p_has_archive FOR UPDATE;
        IF departure.state IN ('stopped', 'open') THEN
            PERFORM consign.clear_departure(departure);
            -- One that was open when it was stopped has been refused: by record_archive or depart.
            IF departure.next_id IS DISTINCT FROM departure.until OR departure.messages = 0 THEN
                refusal := 'changed';
                departure := NULL;
                RETURN;
            END IF;
        ELSIF departure.next_id IS NULL AND departure.state = 'copying' THEN
            PERFORM consign.follow_departure(departure);
        ELSIF departure.state = 'copying' THEN
            PERFORM consign.copy_page(departure);
        END IF;
        IF NOT EXISTS (SELECT FROM consign.departure d WHERE d.state <> 'over') THEN
            refusal := consign.find_departure(p_by_size, p_has_archive);
        END IF;
        SELECT * INTO departure FROM consign.departure d WHERE d.state <> 'over';
        -- One that was stopped meanwhile is cleared by the next call.
        departure.state := replace(departure.state, 'stopped', 'copying');
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        refusal := 'locked';
        departure := NULL;
    END;
END $$;
REVOKE ALL ON FUNCTION consign.begin_departure(uuid, boolean, boolean) FROM PUBLIC;

-- The next messages of a departure after p_after, by id, p_limit or about 16 MiB of them: all but those that were copied.
CREATE FUNCTION consign.departing(p_departure bigint, p_after bigint, p_limit int) RETURNS bigint[]
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_seqscan = off SET enable_sort = off SET jit = off
    AS $$
DECLARE
    v_departure consign.departure;
    v_message   record;
    v_bytes     bigint := 0;
    v_ids       bigint[] := '{}';
BEGIN
    SELECT * INTO v_departure FROM consign.departure d WHERE d.id = p_departure AND d.state IN ('open', 'archived');
    IF NOT FOUND THEN
        RETURN v_ids;
    END IF;
    FOR v_message IN EXECUTE format(
        'SELECT m.id, octet_length(m.payload::text) + octet_length(m.headers::text) AS bytes FROM consign.message m
             WHERE m.id >= $1 AND m.id < $2 AND m.id > $3 AND NOT EXISTS (SELECT FROM consign.%I s WHERE s.id = m.id AND s.id > $3)
             ORDER BY m.id LIMIT $4', 'message_' || v_departure.number)
        USING v_departure.first, v_departure.until, p_after, p_limit
    LOOP
        v_ids := v_ids || v_message.id;
        v_bytes := v_bytes + v_message.bytes;
        EXIT WHEN v_bytes >= 16777216;
    END LOOP;
    RETURN v_ids;
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
    RETURN CASE WHEN NOT EXISTS (SELECT FROM consign.departure d WHERE d.id = p_departure AND d.state <> 'stopped') THEN 'changed' END;
END $$;
REVOKE ALL ON FUNCTION consign.record_archive(uuid, bigint, text) FROM PUBLIC;

-- Replaces the ranges of a departure by the one that has what stays. The old partitions are detached, not dropped. Inserts
-- under one of these ids still find a range. False: its messages have changed, and nothing was done.
--
-- What changed since was followed (consign.follow_change). Two changes write to none of the partitions and are looked for
-- here: another policy, and a dead message that an app has taken back.
CREATE FUNCTION consign.detach_ranges(p_departure consign.departure) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_old    bigint[] := ARRAY(SELECT r.number FROM consign.range r
                                   WHERE r.first >= p_departure.first AND r.until <= p_departure.until ORDER BY r.first);
    v_parent text;
    v_child  text;
    v_number bigint;
BEGIN
    PERFORM consign.lock_tables(ARRAY['message', 'attempt', 'late', 'audit', 'dead', 'discarded']
        || ARRAY(SELECT p || '_' || n FROM unnest(v_old || p_departure.number) n, unnest(ARRAY['message', 'attempt', 'late', 'audit']) p));
    IF p_departure.cutoffs <> consign.cutoffs(p_departure.at, p_departure.by_size, p_departure.has_archive)
        OR cardinality(p_departure.dead_ids) <>
            (SELECT count(*) FROM unnest(p_departure.dead_ids) u JOIN consign.dead d ON d.message_id = u WHERE d.at <= p_departure.at)
    THEN
        RETURN false;
    END IF;
    FOREACH v_parent IN ARRAY ARRAY['message', 'attempt', 'late', 'audit'] LOOP
        v_child := v_parent || '_' || p_departure.number;
        FOREACH v_number IN ARRAY v_old LOOP
            EXECUTE format('ALTER TABLE consign.%I DETACH PARTITION consign.%I', v_parent, v_parent || '_' || v_number);
        END LOOP;
        EXECUTE format('ALTER TABLE consign.%I ATTACH PARTITION consign.%I FOR VALUES FROM (%s) TO (%s)', v_parent, v_child,
                       CASE v_parent WHEN 'audit' THEN greatest(p_departure.first, 1) ELSE p_departure.first END, p_departure.until);
        EXECUTE format('ALTER TABLE consign.%I DROP CONSTRAINT range_bounds', v_child);
    END LOOP;
    DELETE FROM consign.range r WHERE r.number = ANY (v_old);
    DELETE FROM consign.range_count c WHERE c.number = ANY (v_old);
    INSERT INTO consign.range (number, first, until, created_at, closed_at, is_rest) OVERRIDING SYSTEM VALUE
        VALUES (p_departure.number, p_departure.first, p_departure.until, consign.clock(), consign.clock(), true);
    PERFORM consign.count_departed(c.key, (c.value->>'messages')::bigint, (c.value->>'dead')::bigint, 0, (c.value->>'discarded')::bigint)
        FROM (SELECT e.key, e.value FROM jsonb_each(p_departure.counts) e ORDER BY e.key) c;
    DELETE FROM consign.dead d USING unnest(p_departure.dead_ids) u WHERE d.message_id = u;
    DELETE FROM consign.discarded x USING unnest(p_departure.discarded_ids) u WHERE x.message_id = u;
    UPDATE consign.departure d SET state = 'leaving', detached = v_old, dead_ids = '{}', discarded_ids = '{}' WHERE d.id = p_departure.id;
    INSERT INTO consign.audit (at, actor, action, reason)
        SELECT consign.clock(), m.owner, 'depart', format('departure %s: %s messages from %s to %s, %s', p_departure.id,
                   p_departure.messages, greatest(p_departure.first, 1), p_departure.until - 1,
                   coalesce('archive ' || p_departure.archive, 'not archived'))
            FROM consign.maintenance m;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION consign.detach_ranges(consign.departure) FROM PUBLIC;

-- Whether an app needs a message that is to leave, although it did not when the departure began.
CREATE FUNCTION consign.is_needed(p_departure consign.departure) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_found boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM consign.needed($1, $2, $3) n (id) JOIN consign.message m ON m.id = n.id AND m.id >= $1 AND m.id < $2
                                       WHERE NOT EXISTS (SELECT FROM consign.%I s WHERE s.id = n.id))', 'message_' || p_departure.number)
        INTO v_found USING p_departure.first, p_departure.until, p_departure.cutoffs;
    RETURN v_found;
END $$;
REVOKE ALL ON FUNCTION consign.is_needed(consign.departure) FROM PUBLIC;

-- Takes the next step of a departure: detaches its ranges, lets apps follow, drops them.
CREATE FUNCTION consign.depart(p_token uuid, p_departure bigint, OUT refusal text, OUT removed bigint, OUT is_over boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
    AS $$
DECLARE
    v_limit     CONSTANT int := 1000;
    v_departure consign.departure;
    v_hook      record;
    v_count     bigint;
    v_table     record;
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
        IF NOT FOUND OR v_departure.state = 'stopped' THEN
            refusal := 'changed';
        ELSIF v_departure.state = 'over' THEN
            is_over := true;
        ELSIF v_departure.state = 'copying' OR v_departure.state = 'open' AND v_departure.must_archive THEN
            refusal := 'no_archive';
        ELSIF v_departure.state <> 'leaving' THEN
            IF NOT consign.is_needed(v_departure) AND consign.detach_ranges(v_departure) THEN
                removed := v_departure.messages;
            ELSE
                refusal := 'changed';
                UPDATE consign.departure d SET state = 'stopped' WHERE d.id = v_departure.id;
            END IF;
        ELSE
            -- Apps delete their rows first, some in each call.
            FOR v_hook IN
                SELECT q.name, q.hooks->>'departed' AS function FROM consign.queue q
                    WHERE q.hooks ? 'departed' AND v_departure.counts ? q.name ORDER BY q.name
            LOOP
                EXECUTE format('SELECT %s($1, $2, $3, $4)', v_hook.function) INTO v_count
                    USING v_hook.name, v_departure.first, v_departure.until, v_limit;
                IF v_count >= v_limit THEN RETURN; END IF;
            END LOOP;
            -- One table in each call: while large files are removed, everyone waits longer for the disk.
            FOR v_table IN
                SELECT to_regclass(format('consign.%I', p || '_' || n)) AS name
                    FROM unnest(v_departure.detached) n, unnest(ARRAY['message', 'attempt', 'late', 'audit']) p ORDER BY n LOOP
                CONTINUE WHEN v_table.name IS NULL;
                EXECUTE format('DROP TABLE %s', v_table.name);
                RETURN;
            END LOOP;
            UPDATE consign.departure d SET state = 'over' WHERE d.id = v_departure.id;
            is_over := true;
        END IF;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        refusal := 'locked';
    END;
END $$;
REVOKE ALL ON FUNCTION consign.depart(uuid, bigint) FROM PUBLIC;

-- Deletes up to p_limit keys of messages that have left, where their queue keeps keys no longer. Messages leave from ranges
-- that are replaced, so keys of later ones are not looked at.
CREATE FUNCTION consign.forget_keys(p_token uuid, p_limit int, OUT refusal text, OUT forgotten bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_until CONSTANT bigint := (SELECT max(r.until) FROM consign.range r WHERE r.is_rest);
    v_gone  record;
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        refusal := 'lease_lost';
        RETURN;
    END IF;
    forgotten := 0;
    FOR v_gone IN WITH past AS (
        SELECT k.queue, k.key FROM consign.queue q
            JOIN consign.message_key k ON k.queue = q.name AND k.message_id < v_until
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
