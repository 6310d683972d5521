//! What logins with few rights can do.

use consign_testkit::{TestDatabase, eventually};
use sqlx::Connection;

use crate::{
    http,
    service::{SOON, Service, fill, unfinished},
    support::{Consign, migrated_database},
};

/// A login with one role, made for one test and gone with it.
pub(crate) struct Login {
    name: String,
    admin: String,
}

impl Login {
    pub(crate) async fn make(database: &TestDatabase, role: &str) -> Self {
        let login = Self {
            name: format!("login_{}", database.name()),
            admin: database.url().to_owned(),
        };
        let name = &login.name;
        let make = format!("CREATE ROLE {name} LOGIN PASSWORD 'pass' IN ROLE {role}");
        run(&login.admin, make).await;
        login
    }

    /// Gives it another role.
    pub(crate) async fn grant(&self, role: &str) {
        run(&self.admin, format!("GRANT {role} TO {}", self.name)).await;
    }

    /// The same database, reached as this login.
    pub(crate) fn url(&self) -> String {
        let (_, rest) = self.admin.split_once("://").unwrap();
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        format!("postgres://{}:pass@{place}", self.name)
    }

    pub(crate) async fn remove(self) {
        run(&self.admin, format!("DROP ROLE {}", self.name)).await;
    }
}

async fn run(url: &str, sql: String) {
    let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
    let sql = sqlx::AssertSqlSafe(sql);
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_worker_needs_no_more_than_its_role() {
    let database = migrated_database().await;
    let owner = Consign::at(database.url());
    owner
        .run(["queues", "set", "events", "--concurrency", "3"])
        .expect(0);
    let login = Login::make(&database, "consign_worker").await;
    let consign = Consign::at(&login.url());
    let file = |concurrency: u32| {
        consign.configure(&format!(
            "[telemetry]\nsample_interval_ms = 100\n[retention]\ninterval_ms = 1000\n\
             [queues.events]\nconcurrency = {concurrency}\n[queues.events.sink]\nkind = \"discard\"\n"
        ));
    };
    file(3);
    let service = Service::work(&consign, &[]).await;
    fill(&owner, "events", 3);
    eventually("all are delivered", SOON, async || {
        unfinished(&owner, "events") == 0
    })
    .await;
    service.logs("needs the role consign_auditor").await;
    service.logs("this process does not run redrives").await;
    service.logs("this process does not run schedules").await;
    service
        .logs("this process does not run the maintenance")
        .await;
    // Several more samples are taken before this one is seen.
    fill(&owner, "events", 3);
    eventually("all are delivered", SOON, async || {
        unfinished(&owner, "events") == 0
    })
    .await;
    let metrics = http::get(service.address(), "/metrics").await.body;
    assert!(metrics.contains("consign_database_up 1"), "{metrics}");
    let log = service.log();
    // Counting, redrives, schedules and the maintenance, each once.
    assert_eq!(log.matches("permission denied").count(), 4, "{log}");

    file(4);
    service.signal("HUP");
    service
        .logs("changing it needs the role consign_operator")
        .await;
    service.stop().await;
    let ran = consign.run(["work"]).expect(5);
    assert!(ran.stderr.contains("consign_operator"), "{ran:#?}");
    login.remove().await;
}

#[tokio::test]
async fn names_the_role_that_a_login_lacks() {
    let database = migrated_database().await;
    let login = Login::make(&database, "consign_producer").await;
    let consign = Consign::at(&login.url());
    for (command, needed) in [
        (
            "ls",
            "needs one of the roles consign_auditor, consign_operator",
        ),
        (
            "work",
            "a process that delivers needs the role consign_worker",
        ),
        ("migrate", "schema consign belongs to"),
    ] {
        let ran = consign.run([command]).expect(5);
        assert!(ran.stderr.contains(needed), "{command}: {ran:#?}");
        assert!(!ran.stderr.contains("may have happened"), "{ran:#?}");
    }
    login.remove().await;
}

#[tokio::test]
async fn doctor_lists_the_checks_it_may_not_run() {
    let database = migrated_database().await;
    let login = Login::make(&database, "consign_producer").await;
    let consign = Consign::at(&login.url());
    let ran = consign.run(["doctor"]).expect(5);
    let told = "not checked: states: not permitted: permission denied for table message";
    assert!(ran.stdout.contains(told), "{ran:#?}");
    assert!(ran.stdout.contains("consign_auditor"), "{ran:#?}");
    let last = ran.stdout.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("No findings in the checks that ran"),
        "{last}"
    );
    login.grant("consign_auditor").await;
    // An hour of pending audits instead of two is a question for an operator.
    consign.configure("[memory]\npending_audit_timeout_seconds = 3600\n");
    let ran = consign.run(["doctor"]).expect(5);
    assert!(
        ran.stdout
            .contains("not checked: cannot check pending audits"),
        "{ran:#?}"
    );
    consign.configure("");
    let ran = consign.run(["doctor"]).expect(0);
    assert!(ran.stdout.starts_with("All is well"), "{ran:#?}");
    run(
        database.url(),
        "INSERT INTO consign.group_head VALUES ('default', 'a', 1);
         SELECT consign.enqueue('default', '1'); DELETE FROM consign.ready"
            .to_owned(),
    )
    .await;
    consign.run(["doctor"]).expect(1);
    login.remove().await;
}
