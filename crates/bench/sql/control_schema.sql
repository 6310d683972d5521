-- The control: a row per message whose status is updated in place, as most queues on PostgreSQL do
-- it. No straw man: sets instead of rows, a partial index for what is ready, SKIP LOCKED, vacuum
-- settings for a busy table, and no index to find abandoned work, which a complete queue would need.
CREATE SCHEMA consign_control;

CREATE TABLE consign_control.job (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    locked_until timestamptz,
    attempts     int NOT NULL DEFAULT 0,
    queue         text NOT NULL,
    status       text NOT NULL DEFAULT 'ready',
    locked_by    text,
    key          text,
    payload      jsonb NOT NULL,
    headers      jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX job_ready ON consign_control.job (queue, run_at) WHERE status = 'ready';
CREATE UNIQUE INDEX job_key ON consign_control.job (queue, key) WHERE key IS NOT NULL;
ALTER TABLE consign_control.job SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE consign_control.attempt (
    job_id      bigint NOT NULL,
    finished_at timestamptz NOT NULL,
    attempt_no  int NOT NULL,
    outcome     text NOT NULL,
    owner       text NOT NULL,
    code        text,
    detail      text,
    PRIMARY KEY (job_id, attempt_no)
);

-- Fills the queue from inside the server, p_batch messages per transaction.
CREATE PROCEDURE consign_control.fill(p_queue text, p_messages int, p_batch int, p_payload jsonb)
    LANGUAGE plpgsql AS $$
BEGIN
    FOR v_from IN 1 .. p_messages BY p_batch LOOP
        INSERT INTO consign_control.job (queue, payload)
            SELECT p_queue, p_payload FROM generate_series(1, least(p_batch, p_messages - v_from + 1));
        COMMIT;
    END LOOP;
END $$;
