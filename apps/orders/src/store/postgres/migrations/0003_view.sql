-- Orders as in the outbox protocol: a view with its columns and its five states. Two of its three manual statements update
-- the view; the third only counts.

-- The request as it came; what cannot be read as JSON is shown as text, what has no request as it is.
CREATE FUNCTION consign.order_body(p_payload jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN coalesce((p_payload->>'body')::jsonb, p_payload);
EXCEPTION WHEN OTHERS THEN
    RETURN p_payload->'body';
END $$;
REVOKE ALL ON FUNCTION consign.order_body(jsonb) FROM PUBLIC;

-- One branch per place, so that a query for one status does not look into the others. attempts are the
-- tries that failed since the last requeue; locked_at is when the lease was made or last renewed.
CREATE VIEW consign.outbox_orders AS
SELECT m.id,
       m.created_at,
       coalesce(p.changed_at, (SELECT max(a.finished_at) FROM consign.attempt a WHERE a.message_id = p.id), m.created_at) AS updated_at,
       split_part(m.key, '/', 1) AS client,
       substr(m.key, strpos(m.key, '/') + 1) AS idempotency_key,
       consign.order_body(m.payload) AS order_request_json,
       -- An erased message has none.
       coalesce(m.payload->>'request_digest', (SELECT l.request_digest FROM consign.idempo_ledger l WHERE l.outbox_id = p.id)) AS request_digest,
       p.status,
       coalesce(p.attempts, (SELECT count(*) FROM consign.attempt a
           WHERE a.message_id = p.id AND a.outcome <> 'delivered' AND a.code IS DISTINCT FROM 'resolved'
               AND NOT EXISTS (SELECT FROM consign.audit u
                                   WHERE u.message_id = p.id AND u.action = 'requeue' AND u.at >= a.finished_at))::int) AS attempts,
       CASE WHEN p.attempts > 0 OR p.status = 'aborted' THEN coalesce(
           (SELECT a.code FROM consign.attempt a WHERE a.message_id = p.id ORDER BY a.attempt_no DESC LIMIT 1), p.code) END AS last_error_code,
       CASE WHEN p.attempts > 0 OR p.status = 'aborted' THEN
           left((SELECT a.detail FROM consign.attempt a WHERE a.message_id = p.id ORDER BY a.attempt_no DESC LIMIT 1), 512) END AS last_error_msg,
       p.locked_by,
       p.locked_at,
       (SELECT l.order_expires_at FROM consign.idempo_ledger l WHERE l.outbox_id = p.id) AS expires_at,
       p.next_run_at
    FROM (SELECT e.id, CASE WHEN r.due_at > consign.clock() AND e.tries > 0 THEN 'failed' ELSE 'pending' END AS status,
                 e.tries AS attempts, NULL::text AS code, NULL::text AS locked_by, NULL::timestamptz AS locked_at,
                 r.due_at AS next_run_at, NULL::timestamptz AS changed_at
              FROM consign.ready r, unnest(r.ids, r.tries) AS e (id, tries) WHERE r.queue = 'orders'
          UNION ALL
          SELECT w.message_id, 'pending', w.tries, NULL, NULL, NULL, w.due_at, NULL
              FROM consign.waiting w WHERE w.queue = 'orders'
          UNION ALL
          SELECT e.id, 'sending', e.tries, NULL, s.owner, s.locked_at, NULL, s.locked_at
              FROM (SELECT l.ids, l.tries, l.owner,
                           greatest(l.claimed_at, l.expires_at - interval '1 millisecond' * (n.policy->>'lease_ttl_ms')::float8) AS locked_at
                        FROM consign.lease l JOIN consign.queue n ON n.name = l.queue WHERE l.queue = 'orders') s,
                  unnest(s.ids, s.tries) AS e (id, tries)
          UNION ALL
          SELECT h.message_id, 'failed', h.tries, h.reason, NULL, NULL, NULL, h.at
              FROM consign.held h WHERE h.queue = 'orders'
          UNION ALL
          SELECT d.message_id, 'aborted', NULL, d.code, NULL, NULL, NULL, d.at
              FROM consign.dead d WHERE d.queue = 'orders'
          UNION ALL
          SELECT a.message_id, 'succeeded', NULL, NULL, NULL, NULL, NULL, a.finished_at
              FROM consign.attempt a WHERE a.outcome = 'delivered') p
    JOIN consign.message m ON m.id = p.id AND m.queue = 'orders';

-- Ends the lease that holds an order, if it is over; the kernel's own way. Answers whether it did.
CREATE FUNCTION consign.release_void_lock(p_id bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease;
    v_now   timestamptz;
BEGIN
    SELECT * INTO v_lease FROM consign.lease l WHERE l.queue = 'orders' AND l.ids @> ARRAY[p_id] FOR UPDATE;
    v_now := consign.clock();
    IF NOT FOUND THEN
        -- Its lease was ended meanwhile, perhaps by the row before this one.
        RETURN true;
    END IF;
    IF v_lease.expires_at > v_now THEN
        RAISE NOTICE 'order % is skipped: the lock of % is live until %', p_id, v_lease.owner, v_lease.expires_at
            USING HINT = 'Only a lock whose time is over is void. The lease time is in the policy of the queue.';
        RETURN false;
    END IF;
    PERFORM consign.end_lease(v_lease, v_now);
    PERFORM consign.record_action(u, 'expire', session_user, 'void lock released through outbox_orders', v_now)
        FROM unnest(v_lease.ids) u;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION consign.release_void_lock(bigint) FROM PUBLIC;

-- The two changes that mean something: releasing a void lock and requeueing what was aborted.
CREATE FUNCTION consign.change_outbox_order() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    -- What each of the two may set beside the status.
    v_release CONSTANT text[] := ARRAY['status', 'locked_by', 'locked_at', 'updated_at'];
    v_requeue CONSTANT text[] := ARRAY['status', 'attempts', 'last_error_code', 'last_error_msg', 'next_run_at', 'updated_at'];
    v_changed text[];
    v_answer  text;
BEGIN
    PERFORM consign.require_read_committed();
    v_changed := ARRAY(SELECT n.key FROM jsonb_each(to_jsonb(NEW)) n JOIN jsonb_each(to_jsonb(OLD)) o ON o.key = n.key
                           WHERE n.value <> o.value);
    IF NEW.status = 'pending' AND OLD.status = 'sending' AND v_changed <@ v_release AND num_nulls(NEW.locked_by, NEW.locked_at) = 2 THEN
        RETURN CASE WHEN consign.release_void_lock(OLD.id) THEN NEW END;
    END IF;
    IF NEW.status = 'pending' AND OLD.status = 'aborted' AND v_changed <@ v_requeue THEN
        SELECT b.answer INTO v_answer
            FROM consign.put_back(ARRAY[OLD.id], 'requeue', session_user, 'requeued through outbox_orders') b;
        RETURN CASE WHEN v_answer = 'moved' THEN NEW END;
    END IF;
    RAISE EXCEPTION 'outbox_orders: order % is % and cannot be changed like this', OLD.id, OLD.status
        USING ERRCODE = 'CN006', DETAIL = jsonb_build_object('id', OLD.id, 'status', OLD.status, 'changed', v_changed)::text,
              HINT = 'Two changes are possible: sending to pending with locked_by and locked_at null (a void lock), and aborted to pending (a requeue). consign.hold, unhold and resolve do the rest.';
END $$;
REVOKE ALL ON FUNCTION consign.change_outbox_order() FROM PUBLIC;

CREATE TRIGGER change_outbox_order INSTEAD OF UPDATE ON consign.outbox_orders
    FOR EACH ROW EXECUTE FUNCTION consign.change_outbox_order();
