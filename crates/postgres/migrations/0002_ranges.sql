-- Append-only tables, and the ranges they are stored in.
--
-- Messages, attempts, late results and audit entries are append-only, for the owner too: triggers hold where grants do
-- not. Only a purge deletes, whole messages with everything recorded about them. Only an erasure
-- updates: the content of a message that `erasure` names goes, and nothing else changes.
--
-- PostgreSQL does not pass statement triggers on to partitions: each partition gets its own when it is created. A statement
-- on the parent fires the parent's trigger only, so purges and erasures go through the parent. Triggers of rows are passed on.

-- Lets a purge delete: the setting consign.purge names the audit entry of the purge, and that row was written by this
-- very transaction. A row that is visible although the transaction that wrote it is in progress is the transaction's own.
CREATE FUNCTION consign.refuse_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_audit text := current_setting('consign.purge', true);
    v_own   bigint;
    v_epoch CONSTANT bigint := 4294967296;
    v_ahead bigint;
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME IN ('message', 'attempt', 'late', 'audit') AND v_audit ~ '^\d{1,18}$' THEN
        v_own := pg_current_xact_id()::text::bigint;
        SELECT a.xmin::text::bigint - v_own % v_epoch INTO v_ahead
            FROM consign.audit a WHERE a.message_id = 0 AND a.id = v_audit::bigint AND a.action = 'purge';
        -- Rows keep the lower half of a transaction's number: of all that fit, the one nearest to this transaction's.
        -- It may differ from this one's: a savepoint has a number of its own.
        v_ahead := (v_ahead + v_epoch * 3 / 2) % v_epoch - v_epoch / 2;
        IF v_own + v_ahead > 0 AND pg_xact_status((v_own + v_ahead)::text::xid8) = 'in progress' THEN
            RETURN NULL;
        END IF;
    END IF;
    RAISE EXCEPTION '% on consign.% rejected: its rows are append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'CN009', HINT = 'Insert a new row instead; recorded rows never change.';
END $$;
REVOKE ALL ON FUNCTION consign.refuse_change() FROM PUBLIC;

-- Lets an update remove the content of an erased message: the argument of the trigger is what its columns become. A result may
-- keep members that it had, see consign.kept.
CREATE FUNCTION consign.refuse_update() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_old jsonb := to_jsonb(OLD);
    v_new jsonb := to_jsonb(NEW);
BEGIN
    IF v_new = v_old || TG_ARGV[0]::jsonb
            || (CASE WHEN (v_old->'result') @> (v_new->'result') THEN jsonb_build_object('result', v_new->'result') ELSE '{}' END)
        AND EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = coalesce(v_old->>'message_id', v_old->>'id')::bigint)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'UPDATE on consign.% rejected: its rows are append-only', TG_TABLE_NAME
        USING ERRCODE = 'CN009', HINT = 'Insert a new row instead; recorded rows never change, but for erasures: consign.erase().';
END $$;
REVOKE ALL ON FUNCTION consign.refuse_update() FROM PUBLIC;

CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON consign.message
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON consign.attempt
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON consign.late
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON consign.audit
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON consign.erasure
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();
CREATE TRIGGER erase_only BEFORE UPDATE ON consign.message
    FOR EACH ROW EXECUTE FUNCTION consign.refuse_update('{"payload": null, "headers": {}}');
CREATE TRIGGER erase_only BEFORE UPDATE ON consign.attempt
    FOR EACH ROW EXECUTE FUNCTION consign.refuse_update('{"detail": null, "result": null}');
CREATE TRIGGER erase_only BEFORE UPDATE ON consign.late
    FOR EACH ROW EXECUTE FUNCTION consign.refuse_update('{"detail": null, "result": null}');

-- The entries about no message, and about purged ones: they stay when ranges leave and when messages are purged. A statement on the parent does not
-- fire the triggers of statements here, so a purge meets one of rows.
CREATE TABLE consign.audit_0 PARTITION OF consign.audit FOR VALUES FROM (MINVALUE) TO (1);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON consign.audit_0
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();
CREATE TRIGGER permanent BEFORE DELETE ON consign.audit_0
    FOR EACH ROW EXECUTE FUNCTION consign.refuse_change();

-- Where the last range ends when it has messages: at 10,000 messages a second its ids last for 3 years.
CREATE FUNCTION consign.last_range_end(p_first bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN p_first + 1000000000000;
REVOKE ALL ON FUNCTION consign.last_range_end(bigint) FROM PUBLIC;

-- Creates the partitions of a range, with their triggers. Only the owner has rights on them: other roles read and write
-- through the parents. Those of audit begin at 1, above the entries about no message. Those of the last range have a constraint
-- from the beginning: added when they have rows, it would have to be validated, which reads them all.
CREATE FUNCTION consign.make_range(p_first bigint, p_until bigint) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_number bigint;
    v_parent text;
    v_child  text;
BEGIN
    INSERT INTO consign.range (first, until, created_at) VALUES (p_first, p_until, consign.clock()) RETURNING number INTO v_number;
    FOREACH v_parent IN ARRAY ARRAY['message', 'attempt', 'late', 'audit'] LOOP
        v_child := v_parent || '_' || v_number;
        EXECUTE format('CREATE TABLE consign.%I PARTITION OF consign.%I FOR VALUES FROM (%s) TO (%s)',
                       v_child, v_parent, CASE v_parent WHEN 'audit' THEN greatest(p_first, 1) ELSE p_first END, p_until);
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON consign.%I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change()', v_child);
        CONTINUE WHEN p_until < 9223372036854775807;
        EXECUTE format('ALTER TABLE consign.%I ADD CONSTRAINT range_end CHECK (%I >= %s AND %2$I < %4$s)', v_child,
                       CASE v_parent WHEN 'message' THEN 'id' ELSE 'message_id' END, p_first, consign.last_range_end(p_first));
    END LOOP;
    RETURN v_number;
END $$;
REVOKE ALL ON FUNCTION consign.make_range(bigint, bigint) FROM PUBLIC;

-- Locks tables exclusively, and not the partitions of those that have some: every statement locks the table that it names
-- first. All others wait behind this, so it waits for 50 ms in all.
CREATE FUNCTION consign.lock_tables(p_tables text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
    AS $$
DECLARE
    v_until CONSTANT timestamptz := clock_timestamp() + interval '50 milliseconds';
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY p_tables LOOP
        PERFORM set_config('lock_timeout', greatest(1, extract(epoch FROM v_until - clock_timestamp()) * 1000)::int || 'ms', true);
        EXECUTE format('LOCK TABLE ONLY consign.%I IN ACCESS EXCLUSIVE MODE', v_table);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.lock_tables(text[]) FROM PUBLIC;

-- Ends the last range at p_until, and creates another last one. The partitions are detached and attached with new bounds,
-- which is immediate: they are empty, or their constraint says that their ids are below p_until.
CREATE FUNCTION consign.end_last_range(p_range consign.range, p_until bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_parent text;
    v_child  text;
BEGIN
    PERFORM consign.lock_tables(ARRAY['message', 'attempt', 'late', 'audit']
        || ARRAY(SELECT p || '_' || p_range.number FROM unnest(ARRAY['message', 'attempt', 'late', 'audit']) p));
    FOREACH v_parent IN ARRAY ARRAY['message', 'attempt', 'late', 'audit'] LOOP
        v_child := v_parent || '_' || p_range.number;
        EXECUTE format('ALTER TABLE consign.%I DETACH PARTITION consign.%I', v_parent, v_child);
        EXECUTE format('ALTER TABLE consign.%I ATTACH PARTITION consign.%I FOR VALUES FROM (%s) TO (%s)', v_parent, v_child, p_range.first, p_until);
        EXECUTE format('ALTER TABLE consign.%I DROP CONSTRAINT range_end', v_child);
    END LOOP;
    UPDATE consign.range r SET until = p_until WHERE r.number = p_range.number;
    PERFORM consign.make_range(p_until, p_range.until);
END $$;
REVOKE ALL ON FUNCTION consign.end_last_range(consign.range, bigint) FROM PUBLIC;

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

-- The range in use, if it is to be closed before it is full: it was the last one when it had messages, or its first message is
-- older than p_age and a queue has a time to keep messages. With an age of 0 any message is old enough, also one from before
-- the clock was set back.
CREATE FUNCTION consign.aged_range(p_last bigint, p_age interval) RETURNS consign.range
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT r FROM consign.range r
        WHERE r.closed_at IS NULL AND r.first <= p_last AND r.until > p_last + 1 AND r.until < 9223372036854775807
            AND (r.until = consign.last_range_end(r.first)
                 OR (p_age = interval '0'
                     OR EXISTS (SELECT FROM consign.queue q WHERE num_nonnulls(q.policy->>'keep_ms', q.policy->>'keep_dead_ms') > 0))
                    AND (SELECT p_age = interval '0' OR m.created_at <= consign.clock() - p_age FROM consign.message m
                             WHERE m.id >= r.first AND m.id < r.until ORDER BY m.id LIMIT 1)) $$;
REVOKE ALL ON FUNCTION consign.aged_range(bigint, interval) FROM PUBLIC;

-- The bounds of ids. A statement that finds rows by many ids names them beside the ids: PostgreSQL leaves out the ranges
-- outside of them before it starts, and otherwise opens all.
CREATE FUNCTION consign.least_id(p_ids bigint[]) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$ BEGIN RETURN (SELECT min(u) FROM unnest(p_ids) u); END $$;
REVOKE ALL ON FUNCTION consign.least_id(bigint[]) FROM PUBLIC;
CREATE FUNCTION consign.greatest_id(p_ids bigint[]) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$ BEGIN RETURN (SELECT max(u) FROM unnest(p_ids) u); END $$;
REVOKE ALL ON FUNCTION consign.greatest_id(bigint[]) FROM PUBLIC;

-- Rejects a transaction (40001) whose snapshot is older than the replacement of a range that has one of these ids. What stayed
-- in the range was copied, and the snapshot does not see the copies. Called after the rows were read: from then on the
-- transaction's lock keeps ranges from being replaced. The snapshot's ranges are compared with the catalog, which functions
-- read as it is now.
CREATE FUNCTION consign.require_current_ranges(p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM consign.range r
                   WHERE EXISTS (SELECT FROM unnest(p_ids) u WHERE u >= r.first AND u < r.until)
                       AND pg_partition_root(to_regclass('consign.message_' || r.number)) IS DISTINCT FROM 'consign.message'::regclass)
    THEN
        RAISE EXCEPTION 'could not serialize access: a range of messages was replaced after the snapshot of this transaction was taken'
            USING ERRCODE = '40001', HINT = 'Repeat the transaction.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.require_current_ranges(bigint[]) FROM PUBLIC;

SELECT consign.make_range(-9223372036854775808, 1000001);
SELECT consign.make_range(1000001, 9223372036854775807);
