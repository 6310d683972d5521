//! What each role tries with the logbook. The matrix of all of them is in `rights`.

use sqlx::AssertSqlSafe;

use super::Fixture;

const ROLES: [&str; 5] = [
    "consign_gateway",
    "consign_producer",
    "consign_worker",
    "consign_operator",
    "consign_auditor",
];
const GATEWAY: &[&str] = &["consign_gateway"];
const OPERATOR: &[&str] = &["consign_operator"];
const READERS: &[&str] = &["consign_operator", "consign_auditor"];
const LOOKERS: &[&str] = &["consign_gateway", "consign_operator", "consign_auditor"];
const NOBODY: &[&str] = &[];

/// What is tried by every role, and for whom it works.
#[rustfmt::skip]
const TRIES: &[(&str, &[&str])] = &[
    ("SELECT logbook.enqueue_memory('three', 'team:p')", GATEWAY),
    ("SELECT logbook.defer_memory('team:p', 'three', '{}', 'corr-1', 'redirected')", GATEWAY),
    ("SELECT logbook.claim_outbox('w')", GATEWAY),
    ("SELECT logbook.ack_sent(1, 'w')", GATEWAY),
    ("SELECT * FROM logbook.outbox_memory", LOOKERS),
    ("SELECT * FROM logbook.check_dedup('team:p', 'x')", GATEWAY),
    ("SELECT logbook.keep_memory('team:p', 'x')", GATEWAY),
    ("SELECT governance.insert_write_audit('a', 'team:p', 'allow')", GATEWAY),
    ("SELECT logbook.query_write_audit()", LOOKERS),
    ("SELECT governance.get_or_create_settings('p')", LOOKERS),
    ("SELECT governance.upsert_settings('p', true)", OPERATOR),
    ("SELECT logbook.reconcile_outbox()", OPERATOR),
    ("SELECT logbook.search_memory('x', '{team:p}')", LOOKERS),
    ("SELECT logbook.supersede_memory('x', 'y')", GATEWAY),
    ("SELECT logbook.delete_memory('x')", GATEWAY),
    ("SELECT logbook.read_memory('x')", LOOKERS),
    ("SELECT logbook.list_memory('{team:p}')", LOOKERS),
    ("SELECT logbook.memory_spaces()", LOOKERS),
    ("SELECT * FROM governance.write_audit", READERS),
    ("SELECT * FROM logbook.memory", READERS),
    ("INSERT INTO governance.write_audit (target_space, action) VALUES ('team:p', 'allow')", NOBODY),
    ("UPDATE governance.settings SET team_write_enabled = true", NOBODY),
    ("DELETE FROM logbook.outbox_memory", NOBODY),
    ("INSERT INTO identity.users (user_id, display_name) VALUES ('x', 'x')", NOBODY),
    ("CREATE TABLE logbook.mine ()", NOBODY),
    ("SELECT logbook.change_settings('p', true, NULL, false, 'c', '{\"target_space\": \"team:p\", \"action\": \"allow\"}')", GATEWAY),
    ("SELECT logbook.take_write_lock('server', 'me', '1 minute')", GATEWAY),
    // Not under the name of the engine either.
    ("SELECT consign.enqueue('memory', jsonb_build_object('target_space', 'team:p', 'payload_md', 'x', 'payload_sha',
          '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881'),
          'team:p#2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881')", NOBODY),
    ("SELECT consign.claim('memory', 'w', 1)", NOBODY),
];

/// The grants as they act, not as they are written.
#[tokio::test]
async fn every_role_acts_on_the_logbook_as_granted() {
    let mut fixture = Fixture::open().await;
    fixture.run(
        "SELECT logbook.enqueue_memory('one', 'team:p'), logbook.enqueue_memory('two', 'team:p');
         SELECT logbook.claim_outbox('w', 1); SELECT logbook.ack_sent(1, 'w', 'mem-1')",
    )
    .await;
    for (sql, allowed) in TRIES {
        for role in ROLES {
            let attempt = format!("BEGIN; SET LOCAL ROLE {role}; {sql}");
            let result = sqlx::raw_sql(AssertSqlSafe(attempt))
                .execute(&mut fixture.connection)
                .await;
            fixture.run("ROLLBACK").await;
            match result {
                Ok(_) => assert!(allowed.contains(&role), "{role} must not: {sql}"),
                Err(error) => {
                    let code = error
                        .as_database_error()
                        .unwrap()
                        .code()
                        .unwrap()
                        .into_owned();
                    // 55000: such a view allows no delete, so privileges are not checked.
                    let is_refusal = ["42501", "55000"].contains(&code.as_str());
                    assert!(
                        !allowed.contains(&role) && is_refusal,
                        "{role}: {sql}: {error}"
                    );
                }
            }
        }
    }
}

/// A reader creates no rows.
#[tokio::test]
async fn an_auditor_makes_no_settings() {
    let mut fixture = Fixture::open().await;
    let made = "SELECT count(*)::text FROM governance.settings";
    let shown = "SELECT team_write_enabled::text FROM logbook.get_or_create_settings('p')";
    fixture.run("SET ROLE consign_auditor").await;
    assert_eq!(fixture.value(shown).await.as_deref(), Some("false"));
    assert_eq!(fixture.value(made).await.as_deref(), Some("0"));
    fixture.run("RESET ROLE; SET ROLE consign_gateway").await;
    assert_eq!(fixture.value(shown).await.as_deref(), Some("false"));
    fixture.run("RESET ROLE").await;
    assert_eq!(fixture.value(made).await.as_deref(), Some("1"));
}
