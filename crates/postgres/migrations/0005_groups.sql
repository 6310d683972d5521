-- Order within groups: promoting the next message.

-- Promotes the next message of a group after its head was delivered or died.
--
-- A message held while it waited keeps its place: it becomes the head and stays so until an operator resolves or
-- releases it.
--
-- If no message is seen waiting, the head is left open rather than removed: an enqueue under way may be about to wait for
-- it, and this must not wait for that transaction. See fill_open_heads. So is it if a cancel or a hold under way has locked
-- the first of them: a settle that waited could deadlock with one of several groups, or lose its lease meanwhile.
CREATE FUNCTION consign.promote_next(p_queue text, p_group text, p_now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_next  consign.waiting;
    v_first bigint;
    v_held  bigint;
BEGIN
    LOOP
        v_first := (SELECT message_id FROM consign.waiting WHERE queue = p_queue AND "group" = p_group ORDER BY message_id LIMIT 1);
        DELETE FROM consign.waiting w
            WHERE w.message_id = (SELECT message_id FROM consign.waiting WHERE message_id = v_first FOR UPDATE SKIP LOCKED)
                AND NOT EXISTS (SELECT FROM consign.held h
                                    WHERE h.queue = p_queue AND h."group" = p_group AND h.message_id < w.message_id)
            RETURNING * INTO v_next;
        EXIT WHEN FOUND;
        EXIT WHEN EXISTS (SELECT FROM consign.waiting WHERE message_id = v_first)
            AND NOT EXISTS (SELECT FROM consign.held h
                                WHERE h.queue = p_queue AND h."group" = p_group AND h.message_id < v_first);
        SELECT h.message_id INTO v_held FROM consign.held h
            WHERE h.queue = p_queue AND h."group" = p_group ORDER BY h.message_id LIMIT 1;
        EXIT WHEN NOT FOUND AND NOT EXISTS (SELECT FROM consign.waiting WHERE queue = p_queue AND "group" = p_group);
        -- The first may have been held or released in this very moment: then look again.
        CONTINUE WHEN NOT EXISTS (SELECT FROM consign.held h WHERE h.message_id = v_held)
            OR EXISTS (SELECT FROM consign.waiting WHERE queue = p_queue AND "group" = p_group AND message_id < v_held);
        -- A release or resolution looks at the head afterwards. One that is under way may hold a lock on its row: then
        -- the head stays open, and the next claim decides.
        PERFORM FROM consign.group_head WHERE queue = p_queue AND "group" = p_group FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            v_held := NULL;
        ELSIF NOT EXISTS (SELECT FROM consign.held h WHERE h.message_id = v_held) THEN
            CONTINUE;
        END IF;
        UPDATE consign.group_head SET message_id = v_held WHERE queue = p_queue AND "group" = p_group;
        RETURN;
    END LOOP;
    UPDATE consign.group_head SET message_id = v_next.message_id WHERE queue = p_queue AND "group" = p_group;
    IF v_next.message_id IS NOT NULL THEN
        PERFORM consign.make_ready(p_queue, greatest(p_now, v_next.due_at), ARRAY[v_next.message_id],
                                   ARRAY[v_next.tries], ARRAY[v_next.attempts], false, v_next.bytes);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.promote_next(text, text, timestamptz) FROM PUBLIC;

-- Fills up to 1,000 open heads, or that of p_group, with the first message that waits by now; removes those for which none
-- waits.
--
-- A head stays open while a cancel or a hold under way has locked the first that waits: the next claim looks again.
--
-- A head that an unfinished enqueue has locked (key-share lock) is skipped; the next claim looks again. Locking first and
-- reading afterwards, in separate statements, makes sure that whatever was committed under the lock is seen.
CREATE FUNCTION consign.fill_open_heads(p_queue text, p_now timestamptz, p_group text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_group text;
BEGIN
    FOR v_group IN
        SELECT "group" FROM consign.group_head WHERE queue = p_queue AND message_id IS NULL AND (p_group IS NULL OR "group" = p_group)
            ORDER BY "group" LIMIT 1000 FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM consign.promote_next(p_queue, v_group, p_now);
        DELETE FROM consign.group_head t WHERE t.queue = p_queue AND t."group" = v_group AND t.message_id IS NULL
            AND NOT EXISTS (SELECT FROM consign.waiting w WHERE w.queue = p_queue AND w."group" = v_group);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.fill_open_heads(text, timestamptz, text) FROM PUBLIC;

-- Promotes the next messages of the groups of finished messages, in the order given.
CREATE FUNCTION consign.promote_after(p_queue text, p_ids bigint[], p_now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_group text;
BEGIN
    FOR v_group IN
        SELECT m."group" FROM unnest(p_ids) WITH ORDINALITY AS f (id, ord)
            JOIN consign.message m ON m.id = f.id
            WHERE m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids) AND m."group" IS NOT NULL ORDER BY f.ord
    LOOP
        PERFORM consign.promote_next(p_queue, v_group, p_now);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.promote_after(text, bigint[], timestamptz) FROM PUBLIC;
