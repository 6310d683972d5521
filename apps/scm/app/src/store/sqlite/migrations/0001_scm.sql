-- What is known of repositories: commits, revisions, merge requests, and the changes themselves.
--
-- Watermarks of synchronisations are in `kv` under `scm.sync`. Times, documents and foreign keys as in the
-- logbook.

-- `provider` says how it is read. The three counters follow what is written: counting a million commits
-- for every request would be too slow; `consign doctor` counts them.
CREATE TABLE scm_repos (
    repo_id        INTEGER PRIMARY KEY,
    repo_type      TEXT NOT NULL CHECK (repo_type IN ('svn', 'git')),
    provider       TEXT NOT NULL CHECK (provider IN ('git', 'svn', 'gitlab')),
    url            TEXT NOT NULL CHECK (url <> ''),
    project_key    TEXT,
    default_branch TEXT,
    vcs_type       TEXT GENERATED ALWAYS AS (repo_type) VIRTUAL,
    remote_url     TEXT GENERATED ALWAYS AS (url) VIRTUAL,
    created_at     INTEGER NOT NULL,
    changes        INTEGER NOT NULL DEFAULT 0,
    patches_here   INTEGER NOT NULL DEFAULT 0,
    patches_failed INTEGER NOT NULL DEFAULT 0,
    UNIQUE (repo_type, url),
    CHECK ((provider = 'svn') = (repo_type = 'svn'))
) STRICT;

-- How the steps of a repository ended last: when one came to its end, and what was in the way since.
CREATE TABLE scm_steps (
    repo_id      INTEGER NOT NULL,
    step         TEXT NOT NULL CHECK (step IN ('sync', 'consume')),
    completed_at INTEGER,
    stopped_at   INTEGER,
    code         TEXT CHECK (code <> ''),
    message      TEXT,
    PRIMARY KEY (repo_id, step),
    CHECK ((stopped_at IS NULL) = (code IS NULL) AND (code IS NULL) = (message IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE scm_svn_revisions (
    svn_rev_id  INTEGER PRIMARY KEY,
    repo_id     INTEGER NOT NULL,
    rev_num     INTEGER NOT NULL CHECK (rev_num >= 0),
    rev_id      INTEGER GENERATED ALWAYS AS (rev_num) VIRTUAL,
    ts          INTEGER,
    is_bulk     INTEGER GENERATED ALWAYS AS (bulk_reason IS NOT NULL) VIRTUAL,
    author_raw  TEXT NOT NULL,
    message     TEXT NOT NULL,
    bulk_reason TEXT,
    source_id   TEXT GENERATED ALWAYS AS ('svn:' || repo_id || ':' || rev_num) VIRTUAL,
    meta_json   TEXT NOT NULL DEFAULT '{}' CHECK (json_type(meta_json) = 'object'),
    UNIQUE (repo_id, rev_num)
) STRICT;
CREATE UNIQUE INDEX scm_svn_revisions_source ON scm_svn_revisions (source_id);

-- git_commit_id is the position in the repository's history that cursors count by; a number is never
-- given twice.
CREATE TABLE scm_git_commits (
    git_commit_id INTEGER PRIMARY KEY AUTOINCREMENT,
    repo_id       INTEGER NOT NULL,
    ts            INTEGER,
    is_merge      INTEGER NOT NULL DEFAULT 0 CHECK (is_merge IN (0, 1)),
    is_bulk       INTEGER GENERATED ALWAYS AS (bulk_reason IS NOT NULL) VIRTUAL,
    commit_sha    TEXT NOT NULL
                  CHECK (length(commit_sha) BETWEEN 1 AND 64 AND commit_sha NOT GLOB '*[^0-9a-f]*'),
    author_raw    TEXT NOT NULL,
    message       TEXT NOT NULL,
    bulk_reason   TEXT,
    source_id     TEXT GENERATED ALWAYS AS ('git:' || repo_id || ':' || commit_sha) VIRTUAL,
    meta_json     TEXT NOT NULL DEFAULT '{}' CHECK (json_type(meta_json) = 'object')
) STRICT;
CREATE UNIQUE INDEX scm_git_commits_source ON scm_git_commits (source_id);
CREATE UNIQUE INDEX scm_git_commits_position ON scm_git_commits (repo_id, git_commit_id);

-- The change of a commit or revision; without `uri` it could not be fetched so far, and `sha256` is that
-- of nothing. `source_id` is `<repo_id>:<rev_or_sha>`.
CREATE TABLE scm_patch_blobs (
    blob_id          INTEGER PRIMARY KEY,
    source_type      TEXT NOT NULL CHECK (source_type IN ('svn', 'git')),
    source_id        TEXT NOT NULL,
    uri              TEXT CHECK (uri <> ''),
    evidence_uri     TEXT GENERATED ALWAYS AS (
        CASE WHEN uri IS NOT NULL
             THEN 'memory://patch_blobs/' || source_type || '/' || source_id || '/' || sha256 END) VIRTUAL,
    sha256           TEXT NOT NULL CHECK (length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*'),
    size_bytes       INTEGER,
    format           TEXT NOT NULL DEFAULT 'diff' CHECK (format IN ('diff', 'diffstat', 'ministat')),
    chunking_version TEXT,
    meta_json        TEXT NOT NULL DEFAULT '{}' CHECK (json_type(meta_json) = 'object'),
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    UNIQUE (source_type, source_id, sha256)
) STRICT;
CREATE INDEX scm_patch_blobs_sha ON scm_patch_blobs (sha256) WHERE uri IS NOT NULL;
CREATE INDEX scm_patch_blobs_failed ON scm_patch_blobs (source_type, source_id) WHERE uri IS NULL;

CREATE TABLE scm_mrs (
    mr_id          TEXT NOT NULL PRIMARY KEY,
    repo_id        INTEGER NOT NULL,
    author_user_id TEXT,
    status         TEXT NOT NULL CHECK (status <> ''),
    url            TEXT,
    meta_json      TEXT NOT NULL DEFAULT '{}' CHECK (json_type(meta_json) = 'object'),
    source_id      TEXT GENERATED ALWAYS AS ('mr:' || mr_id) VIRTUAL,
    created_at     INTEGER,
    updated_at     INTEGER
) STRICT;
CREATE INDEX scm_mrs_repo ON scm_mrs (repo_id);
CREATE UNIQUE INDEX scm_mrs_source ON scm_mrs (source_id);

CREATE TABLE scm_review_events (
    id               INTEGER PRIMARY KEY,
    mr_id            TEXT NOT NULL,
    source_event_id  TEXT NOT NULL CHECK (source_event_id <> ''),
    reviewer_user_id TEXT,
    event_type       TEXT NOT NULL CHECK (event_type <> ''),
    payload_json     TEXT NOT NULL DEFAULT '{}' CHECK (json_type(payload_json) = 'object'),
    ts               INTEGER,
    UNIQUE (mr_id, source_event_id)
) STRICT;

-- Everything that happened in any repository, each under one name.
CREATE VIEW scm_v_facts AS
SELECT 'svn' AS source_type, source_id, repo_id, ts, author_raw, NULL AS author_user_id, is_bulk,
       bulk_reason, meta_json
FROM scm_svn_revisions
UNION ALL
SELECT 'git', source_id, repo_id, ts, author_raw, NULL, is_bulk, bulk_reason, meta_json
FROM scm_git_commits
UNION ALL
SELECT 'mr', source_id, repo_id, coalesce(updated_at, created_at), meta_json ->> '$.author',
       author_user_id, 0, NULL, meta_json
FROM scm_mrs;

-- The item that a repository's events belong to.
CREATE INDEX items_scm_repo ON items (scope_json ->> '$.repo_id') WHERE item_type = 'scm_repo';
