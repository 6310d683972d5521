-- Facts, and searching: items with what happened to them, what analyses found, kept memories.

-- Refuses who is no user.
CREATE FUNCTION logbook.require_user(p_user_id text, p_what text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF p_user_id IS NOT NULL AND NOT EXISTS (SELECT FROM identity.users u WHERE u.user_id = p_user_id) THEN
        RAISE EXCEPTION '%: no such user: %', p_what, quote_literal(p_user_id)
            USING ERRCODE = 'CN006', HINT = 'Make the user with logbook.create_user() first.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION logbook.require_user(text, text) FROM PUBLIC;

CREATE FUNCTION logbook.require_text(p_text text, p_what text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF coalesce(p_text, '') = '' THEN
        RAISE EXCEPTION '%: must not be empty', p_what USING ERRCODE = 'CN006';
    END IF;
END $$;
REVOKE ALL ON FUNCTION logbook.require_text(text, text) FROM PUBLIC;

CREATE FUNCTION logbook.create_item(item_type text, title text, scope_json jsonb DEFAULT '{}', status text DEFAULT 'open',
                                    owner_user_id text DEFAULT NULL, project_key text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now timestamptz := consign.clock();
    v_id  bigint;
BEGIN
    PERFORM logbook.require_text($1, 'item_type'), logbook.require_text($2, 'title'), logbook.require_user($5, 'owner_user_id');
    INSERT INTO logbook.items AS i (item_type, title, scope_json, status, owner_user_id, project_key, created_at, updated_at)
        VALUES ($1, $2, coalesce($3, '{}'), coalesce(nullif($4, ''), 'open'), $5, $6, v_now, v_now) RETURNING i.item_id INTO v_id;
    RETURN v_id;
END $$;
REVOKE ALL ON FUNCTION logbook.create_item(text, text, jsonb, text, text, text) FROM PUBLIC;

-- Adds an event; with status_to, the item changes to it. NULL: there is no such item.
CREATE FUNCTION logbook.add_event(item_id bigint, event_type text, payload_json jsonb DEFAULT '{}', status_from text DEFAULT NULL,
                                  status_to text DEFAULT NULL, actor_user_id text DEFAULT NULL, source text DEFAULT 'tool') RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now timestamptz := consign.clock();
    v_id  bigint;
BEGIN
    PERFORM logbook.require_text($2, 'event_type'), logbook.require_user($6, 'actor_user_id');
    PERFORM FROM logbook.items i WHERE i.item_id = $1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO logbook.events AS e (item_id, event_type, payload_json, status_from, status_to, actor_user_id, source, created_at)
        VALUES ($1, $2, coalesce($3, '{}'), $4, $5, $6, coalesce(nullif($7, ''), 'tool'), v_now) RETURNING e.event_id INTO v_id;
    IF $5 IS NOT NULL THEN
        UPDATE logbook.items i SET status = $5, updated_at = v_now WHERE i.item_id = $1;
    END IF;
    RETURN v_id;
END $$;
REVOKE ALL ON FUNCTION logbook.add_event(bigint, text, jsonb, text, text, text, text) FROM PUBLIC;

-- Attaches something to an item; the same kind and hash are attached once and answered again. NULL: there
-- is no such item.
CREATE FUNCTION logbook.attach(item_id bigint, kind text, uri text, sha256 text, size_bytes bigint DEFAULT NULL,
                               meta_json jsonb DEFAULT '{}') RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_id bigint;
BEGIN
    PERFORM logbook.require_text($2, 'kind'), logbook.require_text($3, 'uri');
    IF coalesce($4, '') !~ '^[0-9a-fA-F]{64}$' THEN
        RAISE EXCEPTION 'sha256: must be 64 hex digits' USING ERRCODE = 'CN006';
    END IF;
    PERFORM FROM logbook.items i WHERE i.item_id = $1 FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO logbook.attachments AS a (item_id, kind, uri, sha256, size_bytes, meta_json)
        VALUES ($1, $2, $3, lower($4), $5, coalesce($6, '{}')) ON CONFLICT DO NOTHING RETURNING a.attachment_id INTO v_id;
    IF v_id IS NULL THEN
        SELECT a.attachment_id INTO STRICT v_id FROM logbook.attachments a WHERE a.item_id = $1 AND a.kind = $2 AND a.sha256 = lower($4);
    END IF;
    RETURN v_id;
END $$;
REVOKE ALL ON FUNCTION logbook.attach(bigint, text, text, text, bigint, jsonb) FROM PUBLIC;

-- Attaches evidence, to a new item if p_item is given, and writes its audit with both numbers: all or
-- nothing. No row: there is no such item.
CREATE FUNCTION logbook.keep_evidence(p_item jsonb, p_attachment jsonb, p_audit jsonb)
    RETURNS TABLE (item_id bigint, attachment_id bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_ids jsonb;
BEGIN
    item_id := CASE WHEN p_item IS NULL THEN (p_attachment->>'item_id')::bigint
        ELSE logbook.create_item(p_item->>'item_type', p_item->>'title', p_item->'scope_json', p_item->>'status',
                                 p_item->>'owner_user_id', p_item->>'project_key') END;
    attachment_id := logbook.attach(item_id, p_attachment->>'kind', p_attachment->>'uri', p_attachment->>'sha256',
                                    (p_attachment->>'size_bytes')::bigint, p_attachment->'meta_json');
    IF attachment_id IS NULL THEN
        RETURN;
    END IF;
    v_ids := jsonb_build_object('item_id', item_id, 'attachment_id', attachment_id);
    PERFORM governance.insert_write_audit(p_audit->>'actor_user_id', p_audit->>'target_space', p_audit->>'action', p_audit->>'reason',
        p_audit->>'payload_sha', governance.patched(p_audit->'evidence_refs_json', v_ids || jsonb_build_object('gateway_event', v_ids)),
        p_audit->>'correlation_id', p_audit->>'status');
    RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION logbook.keep_evidence(jsonb, jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION logbook.set_kv(namespace text, key text, value_json jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM logbook.require_text($1, 'namespace'), logbook.require_text($2, 'key');
    -- Moved, a watermark would have changes passed over, or taken for new.
    IF $1 = 'scm.sync' AND NOT consign.acts_as('consign_scm') THEN
        RAISE EXCEPTION 'permission denied: % may not move watermarks of repositories', consign.acting_role()
            USING ERRCODE = 'insufficient_privilege', HINT = 'Members of consign_scm move them with the functions of scm.';
    END IF;
    -- Masked, two names could become one.
    IF logbook.masked($1) <> $1 OR logbook.masked($2) <> $2 THEN
        RAISE EXCEPTION '%: contains credentials; remove them', CASE WHEN logbook.masked($1) <> $1 THEN 'namespace' ELSE 'key' END USING ERRCODE = 'CN006';
    END IF;
    INSERT INTO logbook.kv AS k (namespace, key, value_json, updated_at) VALUES ($1, $2, coalesce($3, 'null'), consign.clock())
        ON CONFLICT ON CONSTRAINT kv_pkey DO UPDATE SET value_json = excluded.value_json, updated_at = excluded.updated_at;
END $$;
REVOKE ALL ON FUNCTION logbook.set_kv(text, text, jsonb) FROM PUBLIC;

-- NULL: it was never set.
CREATE FUNCTION logbook.get_kv(namespace text, key text) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT k.value_json FROM logbook.kv k WHERE k.namespace = $1 AND k.key = $2 $$;
REVOKE ALL ON FUNCTION logbook.get_kv(text, text) FROM PUBLIC;

-- Keeps what an analysis found, with the run it came from: same source and version, same run.
CREATE FUNCTION logbook.add_candidate(source_type text, source_id text, pipeline_version text, space text, kind text, title text,
                                      content_md text, confidence text DEFAULT 'mid', evidence_refs_json jsonb DEFAULT '{}',
                                      promote_suggested boolean DEFAULT false) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_run bigint;
    v_id  bigint;
BEGIN
    PERFORM logbook.require_text($1, 'source_type'), logbook.require_text($2, 'source_id'),
            logbook.require_text($3, 'pipeline_version'), logbook.require_text($4, 'space'), logbook.require_text($6, 'title');
    IF coalesce($5 NOT IN ('FACT', 'PROCEDURE', 'PITFALL', 'DECISION', 'REVIEW_GUIDE'), true) THEN
        RAISE EXCEPTION 'kind: must be FACT, PROCEDURE, PITFALL, DECISION or REVIEW_GUIDE' USING ERRCODE = 'CN006';
    ELSIF coalesce($8 NOT IN ('high', 'mid', 'low'), true) THEN
        RAISE EXCEPTION 'confidence: must be high, mid or low' USING ERRCODE = 'CN006';
    END IF;
    INSERT INTO analysis.runs AS r (source_type, source_id, pipeline_version) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
        RETURNING r.run_id INTO v_run;
    IF v_run IS NULL THEN
        SELECT r.run_id INTO STRICT v_run FROM analysis.runs r
            WHERE r.source_type = $1 AND r.source_id = $2 AND r.pipeline_version = $3;
    END IF;
    INSERT INTO analysis.knowledge_candidates AS c (run_id, space, kind, title, content_md, confidence, evidence_refs_json,
                                                    promote_suggested)
        VALUES (v_run, $4, $5, $6, coalesce($7, ''), $8, coalesce($9, '{}'), coalesce($10, false)) RETURNING c.candidate_id INTO v_id;
    RETURN v_id;
END $$;
REVOKE ALL ON FUNCTION logbook.add_candidate(text, text, text, text, text, text, text, text, jsonb, boolean) FROM PUBLIC;

-- The words of a query, each as a query of its own: nothing in the text is an operator. Characters of a
-- script without spaces are a phrase. At most 64.
CREATE FUNCTION logbook.query_words(p_query text) RETURNS tsquery[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce(array_agg(q.word), '{}')
        FROM (SELECT DISTINCT phraseto_tsquery('logbook.words', logbook.search_text(w.word)) AS word
                  FROM regexp_split_to_table(logbook.plain_words(left(p_query, 10000)), ' +') AS w (word)
                  WHERE w.word <> '' LIMIT 64) q
        WHERE numnode(q.word) > 0 $$;
REVOKE ALL ON FUNCTION logbook.query_words(text) FROM PUBLIC;

CREATE FUNCTION logbook.any_word(p_words tsquery[]) RETURNS tsquery
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$ SELECT string_agg('(' || w::text || ')', ' | ')::tsquery FROM unnest(p_words) w $$;
REVOKE ALL ON FUNCTION logbook.any_word(tsquery[]) FROM PUBLIC;

CREATE FUNCTION logbook.word_count(p_tsv tsvector, p_words tsquery[]) RETURNS bigint
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$ SELECT count(*) FROM unnest(p_words) w WHERE p_tsv @@ w $$;
REVOKE ALL ON FUNCTION logbook.word_count(tsvector, tsquery[]) FROM PUBLIC;

-- Searches candidates and events of these spaces: any of the words, those with more of them first.
CREATE FUNCTION logbook.search_logbook(p_query text, p_spaces text[], p_limit int DEFAULT 10)
    RETURNS TABLE (id text, space text, content text, title text, kind text, confidence text, evidence_refs jsonb,
                   created_at timestamptz, score float8)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_words tsquery[] := logbook.query_words(p_query);
    v_any   tsquery := logbook.any_word(v_words);
BEGIN
    RETURN QUERY
        SELECT h.id, h.space, h.content, h.title, h.kind, h.confidence, h.evidence_refs, h.created_at,
               logbook.word_count(h.tsv, v_words) + ts_rank(h.tsv, v_any, 32)::float8 AS score
            FROM (SELECT 'kc_' || c.candidate_id AS id, c.space, c.content_md AS content, c.title, c.kind, c.confidence,
                         c.evidence_refs_json AS evidence_refs, c.created_at, c.tsv
                      FROM analysis.knowledge_candidates c WHERE c.tsv @@ v_any AND c.space = ANY (p_spaces)
                  UNION ALL
                  SELECT 'ev_' || e.event_id, e.space, logbook.document_text(e.payload_json), i.title, e.event_type, NULL, '{}',
                         e.created_at, e.tsv
                      FROM logbook.events e JOIN logbook.items i ON i.item_id = e.item_id
                      WHERE e.tsv @@ v_any AND e.space = ANY (p_spaces)) h
            ORDER BY logbook.word_count(h.tsv, v_words) DESC, h.created_at DESC, h.id DESC LIMIT least(greatest(p_limit, 0), 1000);
END $$;
REVOKE ALL ON FUNCTION logbook.search_logbook(text, text[], int) FROM PUBLIC;

-- Marks a memory as replaced by another of its space, unless it was replaced before, or has itself replaced the
-- other: of two that replace each other at once, one stays.
CREATE FUNCTION logbook.supersede_memory(p_old text, p_new text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM FROM logbook.memory m WHERE m.memory_id IN (p_old, p_new) ORDER BY m.memory_id FOR UPDATE;
    UPDATE logbook.memory m SET superseded_by = p_new
        WHERE m.memory_id = p_old AND m.superseded_by IS NULL
            AND m.target_space = (SELECT n.target_space FROM logbook.memory n WHERE n.memory_id = p_new)
            AND NOT EXISTS (
                WITH RECURSIVE later (memory_id) AS (
                    SELECT p_new COLLATE "C"
                    UNION
                    SELECT n.superseded_by FROM later l JOIN logbook.memory n ON n.memory_id = l.memory_id
                        WHERE n.superseded_by IS NOT NULL
                )
                SELECT FROM later l WHERE l.memory_id = p_old);
END $$;
REVOKE ALL ON FUNCTION logbook.supersede_memory(text, text) FROM PUBLIC;

-- Keeps a memory; the same text in the same space is kept once and answered again. The one that it supersedes
-- is not found any more, and its text may be kept again.
CREATE FUNCTION logbook.keep_memory(p_target_space text, p_payload_md text, p_kind text DEFAULT NULL, p_actor_user_id text DEFAULT NULL,
                                    p_meta_json jsonb DEFAULT '{}', p_evidence jsonb DEFAULT '[]', p_supersedes text DEFAULT NULL,
                                    OUT memory_id text, OUT is_new boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM logbook.require_text(p_target_space, 'target_space');
    -- The one that is there may be replaced or removed before it is read.
    WHILE memory_id IS NULL LOOP
        INSERT INTO logbook.memory AS m (target_space, payload_sha, payload_md, kind, actor_user_id, meta_json, evidence, supersedes, created_at)
            VALUES (p_target_space, logbook.payload_sha(p_payload_md), p_payload_md, p_kind, p_actor_user_id, coalesce(p_meta_json, '{}'),
                    coalesce(p_evidence, '[]'), p_supersedes, consign.clock())
            ON CONFLICT (target_space, payload_sha) WHERE superseded_by IS NULL DO NOTHING RETURNING m.memory_id INTO memory_id;
        is_new := memory_id IS NOT NULL;
        IF NOT is_new THEN
            memory_id := logbook.kept_memory(p_target_space, logbook.payload_sha(p_payload_md));
        END IF;
    END LOOP;
    IF p_supersedes IS NOT NULL THEN
        PERFORM logbook.supersede_memory(p_supersedes, memory_id);
    END IF;
END $$;
REVOKE ALL ON FUNCTION logbook.keep_memory(text, text, text, text, jsonb, jsonb, text) FROM PUBLIC;

-- Under what name a memory is kept; NULL if it is not.
CREATE FUNCTION logbook.kept_memory(p_target_space text, p_payload_sha text) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT m.memory_id FROM logbook.memory m
        WHERE m.target_space = p_target_space AND m.payload_sha = p_payload_sha AND m.superseded_by IS NULL $$;
REVOKE ALL ON FUNCTION logbook.kept_memory(text, text) FROM PUBLIC;

-- Removes a memory with the versions that it replaced, and writes the audit of that, whose fields are those of
-- insert_write_audit. False: it is not there, and nothing was written.
CREATE FUNCTION logbook.delete_memory(p_memory_id text, p_audit jsonb DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    WITH RECURSIVE version (memory_id) AS (
        SELECT m.memory_id FROM logbook.memory m WHERE m.memory_id = p_memory_id
        UNION
        SELECT m.memory_id FROM version v JOIN logbook.memory m ON m.superseded_by = v.memory_id
    )
    DELETE FROM logbook.memory m USING version v WHERE m.memory_id = v.memory_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_audit IS NOT NULL THEN
        PERFORM governance.insert_write_audit(p_audit->>'actor_user_id', p_audit->>'target_space', p_audit->>'action', p_audit->>'reason',
            p_audit->>'payload_sha', p_audit->'evidence_refs_json', p_audit->>'correlation_id', p_audit->>'status');
    END IF;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION logbook.delete_memory(text, jsonb) FROM PUBLIC;

-- Searches kept memories of these spaces: any of the words, those with more of them first; of this kind, by this
-- actor, not older than p_since, older than p_until.
CREATE FUNCTION logbook.search_memory(p_query text, p_spaces text[], p_limit int DEFAULT 10, p_kind text DEFAULT NULL,
                                      p_actor_user_id text DEFAULT NULL, p_since timestamptz DEFAULT NULL,
                                      p_until timestamptz DEFAULT NULL)
    RETURNS TABLE (memory_id text, space text, content text, payload_sha text, kind text, actor_user_id text, meta_json jsonb,
                   evidence jsonb, created_at timestamptz, score float8, supersedes text, superseded_by text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_words tsquery[] := logbook.query_words(p_query);
    v_any   tsquery := logbook.any_word(v_words);
BEGIN
    RETURN QUERY
        SELECT m.memory_id, m.target_space, m.payload_md, m.payload_sha, m.kind, m.actor_user_id, m.meta_json, m.evidence, m.created_at,
               logbook.word_count(m.tsv, v_words) + ts_rank(m.tsv, v_any, 32)::float8, m.supersedes, m.superseded_by
            FROM logbook.memory m
            WHERE m.tsv @@ v_any AND m.superseded_by IS NULL AND m.target_space = ANY (p_spaces) AND (p_kind IS NULL OR m.kind = p_kind)
                AND (p_actor_user_id IS NULL OR m.actor_user_id = p_actor_user_id)
                AND (p_since IS NULL OR m.created_at >= p_since) AND (p_until IS NULL OR m.created_at < p_until)
            ORDER BY logbook.word_count(m.tsv, v_words) DESC, m.created_at DESC, m.memory_id LIMIT least(greatest(p_limit, 0), 1000);
END $$;
REVOKE ALL ON FUNCTION logbook.search_memory(text, text[], int, text, text, timestamptz, timestamptz) FROM PUBLIC;

-- The kept memory of this name.
CREATE FUNCTION logbook.read_memory(p_memory_id text) RETURNS SETOF logbook.memory
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT * FROM logbook.memory m WHERE m.memory_id = p_memory_id $$;
REVOKE ALL ON FUNCTION logbook.read_memory(text) FROM PUBLIC;

-- Kept memories of these spaces, newest first, filtered as search_memory does; those that come after the one with
-- this time and name. Uses memory_listed for each space.
CREATE FUNCTION logbook.list_memory(p_spaces text[], p_limit int DEFAULT 50, p_kind text DEFAULT NULL, p_actor_user_id text DEFAULT NULL,
                                    p_since timestamptz DEFAULT NULL, p_until timestamptz DEFAULT NULL,
                                    p_after_at timestamptz DEFAULT NULL, p_after_id text DEFAULT NULL) RETURNS SETOF logbook.memory
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT m.* FROM (SELECT DISTINCT unnest(p_spaces) AS space) s
        CROSS JOIN LATERAL (
            SELECT * FROM logbook.memory k
                WHERE k.target_space = s.space AND k.superseded_by IS NULL AND (p_kind IS NULL OR k.kind = p_kind)
                    AND (p_actor_user_id IS NULL OR k.actor_user_id = p_actor_user_id)
                    AND k.created_at >= coalesce(p_since, '-infinity') AND k.created_at < coalesce(p_until, 'infinity')
                    AND (k.created_at, k.memory_id) < (coalesce(p_after_at, 'infinity'), coalesce(p_after_id, ''))
                ORDER BY k.created_at DESC, k.memory_id DESC LIMIT least(greatest(p_limit, 0), 1001)) m
        ORDER BY m.created_at DESC, m.memory_id DESC LIMIT least(greatest(p_limit, 0), 1001) $$;
REVOKE ALL ON FUNCTION logbook.list_memory(text[], int, text, text, timestamptz, timestamptz, timestamptz, text) FROM PUBLIC;

-- Every space that a memory was ever stored in. Goes from one to the next by write_audit_space.
CREATE FUNCTION logbook.memory_spaces() RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH RECURSIVE found (space) AS (
        SELECT min(a.target_space) FROM governance.write_audit a WHERE a.status = 'success' AND a.evidence_refs_json ? 'memory_id'
        UNION ALL
        SELECT (SELECT min(a.target_space) FROM governance.write_audit a
                    WHERE a.status = 'success' AND a.evidence_refs_json ? 'memory_id' AND a.target_space > f.space)
            FROM found f WHERE f.space IS NOT NULL
    )
    SELECT f.space FROM found f WHERE f.space IS NOT NULL $$;
REVOKE ALL ON FUNCTION logbook.memory_spaces() FROM PUBLIC;
