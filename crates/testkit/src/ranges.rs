//! Which ranges of a PostgreSQL database statements read.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

/// Plans that fit every id, as a server that runs for long has them.
const GENERIC_PLANS: &str =
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";
/// How often this session has read partitions, but those of the first range and the audit entries about
/// no message. What it has not reported yet of earlier transactions counts too.
const READS: &str = "SELECT s.relname::text, coalesce(s.idx_scan, 0) + s.seq_scan
    FROM pg_stat_xact_user_tables s JOIN pg_inherits i ON i.inhrelid = s.relid
    WHERE s.schemaname = 'consign' AND s.relname !~ '_[01]$'";

/// A session with generic plans on a database with many ranges. All messages are in the first.
#[derive(Debug)]
pub struct RangeSession {
    connection: PgConnection,
    prepared: u32,
}

impl RangeSession {
    /// Adds ranges to a migrated database until there are so many.
    ///
    /// # Panics
    /// Panics where the database cannot be reached or has no ranges.
    pub async fn open(url: &str, ranges: u32) -> Self {
        let connection = PgConnection::connect(url).await;
        let mut session = Self {
            connection: connection.expect("the database of the test"),
            prepared: 0,
        };
        let add = format!(
            "DO $$ DECLARE v_last consign.range; BEGIN
                 WHILE (SELECT count(*) FROM consign.range) < {ranges} LOOP
                     SELECT * INTO STRICT v_last FROM consign.range WHERE until = 9223372036854775807;
                     PERFORM consign.end_last_range(v_last, v_last.first + 1000);
                 END LOOP;
             END $$"
        );
        session.execute(&add).await;
        session.execute(GENERIC_PLANS).await;
        session
    }

    /// Runs statements that may read any range.
    ///
    /// # Panics
    /// Panics if one fails.
    pub async fn execute(&mut self, sql: &str) {
        let sent = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        let done = sent.execute(&mut self.connection).await;
        done.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    /// The only value of a query, as text.
    ///
    /// # Panics
    /// Panics if the query fails, or the value is NULL.
    pub async fn text(&mut self, sql: &str) -> String {
        let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
        let row = query.fetch_one(&mut self.connection).await;
        let row = row.unwrap_or_else(|error| panic!("{error}: {sql}"));
        row.try_get(0)
            .unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    /// Runs a statement in a transaction.
    ///
    /// # Panics
    /// Panics if it fails, or reads a range other than the first.
    pub async fn run(&mut self, what: &str, sql: &str) {
        self.execute("BEGIN").await;
        let before = self.reads().await;
        self.execute(sql).await;
        let after = self.reads().await;
        self.execute("COMMIT").await;
        let is_read = |(name, reads): &(&String, &i64)| before.get(*name).unwrap_or(&0) < *reads;
        let read: Vec<&String> = after.iter().filter(is_read).map(|(name, _)| name).collect();
        let (count, some) = (read.len(), &read[..read.len().min(4)]);
        assert!(read.is_empty(), "{what} reads {count} ranges: {some:?}");
    }

    async fn reads(&mut self) -> BTreeMap<String, i64> {
        let reads = sqlx::query_as(READS).fetch_all(&mut self.connection).await;
        reads
            .expect("the counters of the session")
            .into_iter()
            .collect()
    }

    /// Runs a statement with parameters, as a store prepares it.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub async fn run_prepared(&mut self, what: &str, statement: &str, arguments: &str) {
        self.prepared += 1;
        let name = format!("prepared_{}", self.prepared);
        self.execute(&format!("PREPARE {name} AS {statement}"))
            .await;
        self.run(what, &format!("EXECUTE {name} ({arguments})"))
            .await;
    }
}
