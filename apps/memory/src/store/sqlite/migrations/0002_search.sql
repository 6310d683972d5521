-- Full-text search over candidates, events and kept memories. The indexes hold no copy of the text;
-- triggers keep them in step with the tables. Words are compared without case and without the endings of
-- English (Porter), as in PostgreSQL; there are no stop words. Scripts that are
-- written without spaces cannot be split here: the store writes such texts character by
-- character into `words`, and what plain SQL writes is searched as it is.

CREATE VIRTUAL TABLE candidate_words USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 0'
);
CREATE TRIGGER candidate_added AFTER INSERT ON knowledge_candidates
BEGIN
    INSERT INTO candidate_words (rowid, text)
    VALUES (NEW.candidate_id, coalesce(NEW.words, NEW.title || char(10) || NEW.content_md));
END;
CREATE TRIGGER candidate_changed AFTER UPDATE ON knowledge_candidates
BEGIN
    DELETE FROM candidate_words WHERE rowid = OLD.candidate_id;
    INSERT INTO candidate_words (rowid, text)
    VALUES (NEW.candidate_id, coalesce(NEW.words, NEW.title || char(10) || NEW.content_md));
END;
CREATE TRIGGER candidate_removed AFTER DELETE ON knowledge_candidates
BEGIN
    DELETE FROM candidate_words WHERE rowid = OLD.candidate_id;
END;

-- What an event says: the strings of its payload, a line each, but for the space it belongs to.
CREATE VIEW event_text AS
SELECT event_id, item_id, event_type, space, created_at,
       coalesce((SELECT group_concat(atom, char(10)) FROM json_tree(payload_json)
                 WHERE type = 'text' AND fullkey <> '$.space'), '') AS content
FROM events;

CREATE VIRTUAL TABLE event_words USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 0'
);
CREATE TRIGGER event_added AFTER INSERT ON events
BEGIN
    INSERT INTO event_words (rowid, text)
    SELECT event_id, coalesce(NEW.words, event_type || char(10) || content)
    FROM event_text WHERE event_id = NEW.event_id;
END;
CREATE TRIGGER event_changed AFTER UPDATE ON events
BEGIN
    DELETE FROM event_words WHERE rowid = OLD.event_id;
    INSERT INTO event_words (rowid, text)
    SELECT event_id, coalesce(NEW.words, event_type || char(10) || content)
    FROM event_text WHERE event_id = NEW.event_id;
END;
CREATE TRIGGER event_removed AFTER DELETE ON events
BEGIN
    DELETE FROM event_words WHERE rowid = OLD.event_id;
END;

-- What is removed here leaves no word behind in the file: the index is told what it had.
CREATE VIRTUAL TABLE kept_words USING fts5 (
    text, content = '', tokenize = 'porter unicode61 remove_diacritics 0'
);
INSERT INTO kept_words (kept_words, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER kept_added AFTER INSERT ON memory_kept
BEGIN
    INSERT INTO kept_words (rowid, text) VALUES (NEW.kept_id, coalesce(NEW.words, NEW.payload_md));
END;
CREATE TRIGGER kept_changed AFTER UPDATE OF kept_id, payload_md, words ON memory_kept
BEGIN
    INSERT INTO kept_words (kept_words, rowid, text)
    VALUES ('delete', OLD.kept_id, coalesce(OLD.words, OLD.payload_md));
    INSERT INTO kept_words (rowid, text) VALUES (NEW.kept_id, coalesce(NEW.words, NEW.payload_md));
END;
CREATE TRIGGER kept_removed AFTER DELETE ON memory_kept
BEGIN
    INSERT INTO kept_words (kept_words, rowid, text)
    VALUES ('delete', OLD.kept_id, coalesce(OLD.words, OLD.payload_md));
END;
