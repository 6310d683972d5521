-- Subscribers, in a schema of the app's own.
CREATE SCHEMA IF NOT EXISTS newsletter;

CREATE TABLE newsletter.subscriber (
    address    text PRIMARY KEY CHECK (address ~ '^[^@\s]+@[^@\s]+$' AND octet_length(address) <= 254),
    status     text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'welcomed', 'unreachable')),
    message_id bigint NOT NULL UNIQUE
);

-- A subscriber and its welcome, in the caller's transaction. A repeat returns the row that is there: the key makes
-- enqueue return the first message.
CREATE FUNCTION newsletter.subscribe(p_address text) RETURNS newsletter.subscriber
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_subscriber newsletter.subscriber;
BEGIN
    INSERT INTO newsletter.subscriber (address, message_id)
        VALUES (p_address, consign.enqueue('newsletter', jsonb_build_object('address', p_address), p_key => p_address))
        ON CONFLICT (address) DO NOTHING;
    SELECT * INTO v_subscriber FROM newsletter.subscriber WHERE address = p_address;
    RETURN v_subscriber;
END $$;
REVOKE ALL ON FUNCTION newsletter.subscribe(text) FROM PUBLIC;

-- Sets each subscriber's status to what became of its message. Right whatever the change was, and however often it runs.
CREATE FUNCTION newsletter.refresh(p_ids bigint[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    UPDATE newsletter.subscriber s SET status = CASE
            WHEN EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = s.message_id AND a.outcome = 'delivered') THEN 'welcomed'
            WHEN EXISTS (SELECT FROM consign.dead d WHERE d.message_id = s.message_id) THEN 'unreachable'
            ELSE 'pending' END
        WHERE s.message_id = ANY (p_ids)
    $$;
REVOKE ALL ON FUNCTION newsletter.refresh(bigint[]) FROM PUBLIC;

-- The hooks: settle and expiry pass the lease's fence, an operator's move its name.
CREATE FUNCTION newsletter.settled(p_queue text, p_ids bigint[], p_fence bigint) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT newsletter.refresh(p_ids) $$;
REVOKE ALL ON FUNCTION newsletter.settled(text, bigint[], bigint) FROM PUBLIC;

CREATE FUNCTION newsletter.moved(p_queue text, p_ids bigint[], p_action text) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT newsletter.refresh(p_ids) $$;
REVOKE ALL ON FUNCTION newsletter.moved(text, bigint[], text) FROM PUBLIC;

SELECT consign.set_hook('newsletter', 'settled', 'newsletter.settled');
SELECT consign.set_hook('newsletter', 'expired', 'newsletter.settled');
SELECT consign.set_hook('newsletter', 'moved', 'newsletter.moved');

GRANT USAGE ON SCHEMA newsletter TO consign_producer, consign_operator, consign_auditor;
GRANT EXECUTE ON FUNCTION newsletter.subscribe(text) TO consign_producer;
GRANT SELECT ON newsletter.subscriber TO consign_producer, consign_operator, consign_auditor;
