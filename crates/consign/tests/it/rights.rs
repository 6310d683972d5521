//! The privilege matrix: every role against every schema, table, view, sequence and function, as
//! `docs/rights.md` and the catalogs have them.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use consign_postgres::PostgresStore;
use consign_testkit::TestDatabase;
use sqlx::Row;

use crate::support::{migrated_database, postgres_options};

/// Set, the page is written instead of compared.
const WRITE: &str = "CONSIGN_WRITE_RIGHTS";
const BEGIN: &str =
    "<!-- written by the test `every_role_has_the_rights_on_the_page_and_no_more` -->\n";

/// The letters are those of the server's own access lists.
const MEASURE: &str = r"
WITH ours AS (
    SELECT n.oid, n.nspname FROM pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'),
object AS (
    SELECT 'n' AS kind, o.oid, o.nspname || ' (schema)' AS name, o.nspname FROM ours o WHERE o.nspname <> 'public'
    UNION ALL
    SELECT c.relkind::text, c.oid, o.nspname || '.' || c.relname, o.nspname
        FROM pg_class c JOIN ours o ON o.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL
    -- Named by its arguments where the name alone would not do.
    SELECT 'fn', p.oid, CASE WHEN count(*) OVER (PARTITION BY p.pronamespace, p.proname) > 1 THEN p.oid::regprocedure::text
                             ELSE o.nspname || '.' || p.proname || '()' END, o.nspname
        FROM pg_proc p JOIN ours o ON o.oid = p.pronamespace)
SELECT o.nspname, o.name, o.kind = 'fn' AS is_function, r.name AS role, CASE o.kind
    WHEN 'n' THEN concat(CASE WHEN has_schema_privilege(r.name, o.oid, 'USAGE') THEN 'U' END,
                         CASE WHEN has_schema_privilege(r.name, o.oid, 'CREATE') THEN 'C' END)
    WHEN 'fn' THEN CASE WHEN has_function_privilege(r.name, o.oid, 'EXECUTE') THEN 'X' ELSE '' END
    WHEN 'S' THEN (SELECT string_agg(p.letter, '' ORDER BY p.letter)
        FROM (VALUES ('U', 'USAGE'), ('r', 'SELECT'), ('w', 'UPDATE')) AS p (letter, word)
        WHERE has_sequence_privilege(r.name, o.oid, p.word))
    ELSE (SELECT string_agg(CASE WHEN has_table_privilege(r.name, o.oid, p.word) THEN p.letter
                                 ELSE p.letter || ' but ' || c.others END, '' ORDER BY p.ord)
        FROM (VALUES (1, 'r', 'SELECT'), (2, 'a', 'INSERT'), (3, 'w', 'UPDATE'), (4, 'd', 'DELETE'), (5, 'D', 'TRUNCATE'),
                     (6, 'x', 'REFERENCES'), (7, 't', 'TRIGGER')) AS p (ord, letter, word)
        CROSS JOIN LATERAL (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) AS others FROM pg_attribute a
            WHERE a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped AND p.ord IN (1, 2, 3, 6)
                AND NOT has_column_privilege(r.name, o.oid, a.attnum, p.word)) c
        WHERE has_table_privilege(r.name, o.oid, p.word)
            OR p.ord IN (1, 2, 3, 6) AND has_any_column_privilege(r.name, o.oid, p.word)) END AS rights
    FROM object o CROSS JOIN unnest($1::text[]) WITH ORDINALITY AS r (name, ord)
    ORDER BY o.nspname, o.kind = 'fn', o.kind <> 'n', o.name, r.ord
";

async fn connect(database: &TestDatabase) -> PostgresStore {
    let options = postgres_options(database.url());
    PostgresStore::connect(&options).await.unwrap()
}

/// The roles that the migrations create, and PUBLIC.
fn roles() -> Vec<String> {
    let made = postgres_options("")
        .migrations()
        .into_iter()
        .flat_map(|m| m.sql.split("SELECT consign.make_role('").skip(1));
    let mut roles: Vec<String> = made
        .map(|rest| rest.split('\'').next().unwrap().to_owned())
        .collect();
    roles.sort();
    roles.push("public".to_owned());
    roles
}

fn row(name: &str, cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!(" {cell} |")).collect();
    format!("| {name} |{}\n", cells.concat())
}

/// A table of each schema for what some role has a right to, and a list of what none has.
async fn measured() -> String {
    let database = migrated_database().await;
    let store = connect(&database).await;
    let roles = roles();
    let rows = sqlx::query(MEASURE)
        .bind(&roles)
        .fetch_all(store.pool())
        .await
        .unwrap();
    let (mut page, mut schema, mut nobody) = (String::new(), String::new(), Vec::new());
    for object in rows.chunks(roles.len()) {
        let text = |name: &str| object[0].get::<String, _>(name);
        let cells: Vec<String> = object
            .iter()
            .map(|row| row.get::<Option<String>, _>("rights").unwrap_or_default())
            .collect();
        if cells.iter().all(String::is_empty) {
            nobody.push(format!("`{}`\n", text("name")));
            continue;
        }
        if schema != text("nspname") {
            schema = text("nspname");
            let titles: Vec<String> = roles.iter().map(|role| format!("`{role}`")).collect();
            let line = vec!["---".to_owned(); roles.len()];
            let (head, line) = (row("", &titles), row("---", &line));
            write!(page, "\n## Schema `{schema}`\n\n{head}{line}").unwrap();
        }
        page += &row(&format!("`{}`", text("name")), &cells);
    }
    page + "\n## Internal: no role has any right\n\n- " + &nobody.join("- ")
}

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/rights.md")
}

/// A new function, table or role without a row fails here. See the page for how to write it anew.
#[tokio::test]
async fn every_role_has_the_rights_on_the_page_and_no_more() {
    let measured = measured().await;
    let text = fs::read_to_string(page()).unwrap();
    let (head, expected) = text.split_once(BEGIN).expect("the page has its mark");
    if std::env::var_os(WRITE).is_some() {
        fs::write(page(), format!("{head}{BEGIN}{measured}")).unwrap();
        return;
    }
    let lines = |text: &str| {
        text.lines()
            .map(str::to_owned)
            .collect::<BTreeSet<String>>()
    };
    let (expected, measured) = (lines(expected), lines(&measured));
    let wrong: Vec<&String> = measured.difference(&expected).collect();
    let missing: Vec<&String> = expected.difference(&measured).collect();
    assert!(
        wrong.is_empty() && missing.is_empty(),
        "in the database\n{wrong:#?}\nin docs/rights.md\n{missing:#?}\n\
         Correct the grants, or write the page anew with {WRITE}=1 and read what has changed."
    );
}

/// The roles are groups to put logins in: none can do anything of its own or is a member of another.
#[tokio::test]
async fn no_role_brings_more_than_its_grants() {
    let database = migrated_database().await;
    let store = connect(&database).await;
    let mut roles = roles();
    assert_eq!(roles.pop().as_deref(), Some("public"));
    assert!(roles.len() >= 13, "{roles:?}");
    let more: Vec<String> = sqlx::query_scalar(
        "SELECT r.rolname::text FROM pg_roles r WHERE r.rolname = ANY ($1)
             AND (r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolcanlogin OR r.rolreplication OR r.rolbypassrls)
         UNION ALL
         SELECT format('%s in %s', m.member::regrole, m.roleid::regrole) FROM pg_auth_members m
             WHERE m.member IN (SELECT r.oid FROM pg_roles r WHERE r.rolname = ANY ($1))",
    )
    .bind(&roles)
    .fetch_all(store.pool())
    .await
    .unwrap();
    assert_eq!(more, Vec::<String>::new());
}

/// Left out, pg_temp would be searched first, and a caller's own types would run the caller's code as
/// the owner; and with `standard_conforming_strings` off a backslash in a body would mean something
/// else. Functions with a parsed body need neither.
#[tokio::test]
async fn every_function_pins_what_it_is_read_with() {
    let database = migrated_database().await;
    let store = connect(&database).await;
    let loose: Vec<String> = sqlx::query_scalar(
        r"SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
         WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND p.prosqlbody IS NULL
             AND (NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)
                  OR p.prosrc LIKE '%\\%' AND NOT coalesce('standard_conforming_strings=on' = ANY (p.proconfig), false))",
    )
    .fetch_all(store.pool())
    .await
    .unwrap();
    assert_eq!(loose, Vec::<String>::new());
}
