//! Through a real PgBouncer in transaction mode.

use std::sync::Arc;

use consign_postgres::PostgresStore;
use consign_testkit::{PgBouncer, TestDatabase, eventually};

use crate::{
    scenario::walk,
    service::{SOON, Service, fill, unfinished},
    support::{Consign, migrated_database, postgres_options},
};

#[tokio::test]
async fn every_command_through_a_transaction_pooler() {
    let database = TestDatabase::create(async |_| {}).await;
    let pooler = PgBouncer::start(database.url()).await;
    let consign = Consign::at(&pooler.url(database.name()));
    consign.run(["migrate"]).expect(0);
    let options = postgres_options(database.url());
    let store = PostgresStore::connect(&options).await.unwrap();
    walk(&consign, Arc::new(store)).await;
}

#[tokio::test]
async fn it_works_through_a_transaction_pooler_with_and_without_wake_ups() {
    let database = migrated_database().await;
    let pooler = PgBouncer::start(database.url()).await;
    let consign = Consign::at(&pooler.url(database.name()));
    for listen in [
        String::new(),
        format!("listen_url = \"{}\"\n", database.url()),
    ] {
        consign.configure(&format!(
            "[database]\npooler = \"transaction\"\n{listen}[queues.a.sink]\nkind = \"discard\"\n"
        ));
        let service = Service::work(&consign, &[]).await;
        fill(&consign, "a", 50);
        eventually("all are delivered", SOON, async || {
            unfinished(&consign, "a") == 0
        })
        .await;
        service.stop().await;
    }
}
