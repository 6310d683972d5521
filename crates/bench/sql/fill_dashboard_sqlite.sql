-- The same as fill_dashboard.sql. The table `size` says how many messages and how many dead.
CREATE TEMP TABLE fill AS
    WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted, size WHERE n < size.messages)
    SELECT n AS id, size.started_at + n * 1000 AS at,
           CASE WHEN n % 100 < 60 THEN 'mail' WHEN n % 100 < 85 THEN 'webhooks' WHEN n % 100 < 99 THEN 'billing' ELSE 'reports' END AS queue,
           CASE WHEN n % (size.messages / size.dead) = 7 THEN 'dead' WHEN n % 4000 = 11 THEN 'held'
                WHEN n > size.messages - size.messages / 20 THEN 'ready' ELSE 'delivered' END AS state
        FROM counted, size;
BEGIN IMMEDIATE;
INSERT INTO message (id, queue, key, "group", created_at, headers, payload)
    SELECT id, queue, 'key-' || id, NULL, at,
           CASE WHEN id % 4 = 0 THEN json_object('correlation_id', 'case-' || id / 16) ELSE '{}' END,
           json_object('number', id, 'text', printf('%.150c', 'x'))
        FROM fill ORDER BY id;
INSERT INTO attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at, code)
    SELECT id, 1, state, 'worker', 0, zeroblob(16), at, at, CASE state WHEN 'dead' THEN 'code_' || id % 5 END
        FROM fill WHERE state IN ('dead', 'delivered') ORDER BY id;
INSERT INTO dead (message_id, queue, at, attempt_no, code)
    SELECT id, queue, at, 1, 'code_' || id % 5 FROM fill WHERE state = 'dead' ORDER BY id;
INSERT INTO held (message_id, queue, at, reason, tries, attempts)
    SELECT id, queue, at, 'by hand', 0, 0 FROM fill WHERE state = 'held' ORDER BY id;
INSERT INTO ready (queue, due_at, isolated, ids, tries, attempts)
    SELECT queue, min(at), 0, json_group_array(id), json_group_array(0), json_group_array(0)
        FROM (SELECT *, (row_number() OVER (PARTITION BY queue ORDER BY id) - 1) / 200 AS batch FROM fill WHERE state = 'ready' ORDER BY id)
        GROUP BY queue, batch ORDER BY min(id);
INSERT INTO audit (at, actor, action, queue, message_id, reason)
    SELECT at, 'operator', CASE WHEN id % 3 = 0 THEN 'hold' ELSE 'requeue' END, queue, id, 'by hand'
        FROM fill WHERE id % 50 = 1 ORDER BY id;
-- Statistics of a day by minute and of a week by hour.
INSERT INTO queue_stats (span, minute, queue, delivered, retried, dead, took_ms, ms50, ms250, due, oldest_ms)
    WITH RECURSIVE span(span, points) AS (VALUES (1, 1440), (60, 168)), point(span, n, points) AS (
        SELECT span, 1, points FROM span UNION ALL SELECT span, n + 1, points FROM point WHERE n < points)
    SELECT p.span, (unixepoch() / (60 * p.span) - p.n) * 60000000 * p.span, q.column1, 300 * p.span, 9 * p.span, p.span,
           15000 * p.span, 300 * p.span, 10 * p.span, 40, 900
        FROM point AS p CROSS JOIN (VALUES ('mail'), ('webhooks'), ('billing'), ('reports')) AS q;
COMMIT;
DROP TABLE fill;
