//! Through the real PgBouncer in transaction mode: no session state is needed.

use std::time::Duration;

use consign_kernel::{
    BeginAnswer, By, Claim, NewMessage, RedrivePlan, ReleaseAnswer, RenewAnswer, Report,
    SettleAnswer, prelude::*,
};
use consign_memory::{EventFilter, Listing, Logbook as _};
use consign_postgres::{Pooler, PostgresOptions, PostgresStore, enqueue_in};
use consign_testkit::PgBouncer;
use serde_json::json;

use crate::harness::database;

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_works_through_a_transaction_pooler() {
    let database = database().await;
    let bouncer = PgBouncer::start(database.url()).await;
    let options = PostgresOptions {
        pooler: Pooler::Transaction,
        ..PostgresOptions::new(bouncer.url(database.name()))
    };
    let store = PostgresStore::connect(&options).await.unwrap();
    let (queue, by) = ("default".parse().unwrap(), By::new("test", "test"));
    let message =
        |n: u32| NewMessage::new("default".parse().unwrap(), json!(n)).with_key(n.to_string());

    let mut tx = store.pool().begin().await.unwrap();
    enqueue_in(&mut tx, &[message(0)]).await.unwrap();
    tx.commit().await.unwrap();
    let mixed = [
        message(1),
        message(2).with_delay(Duration::from_secs(1)),
        message(3),
    ];
    store.enqueue(&mixed).await.unwrap();
    let lease = store
        .claim(&Claim::new(queue, "w", 10))
        .await
        .unwrap()
        .unwrap();
    let ids: Vec<_> = lease
        .messages
        .iter()
        .map(|claimed| claimed.message.id)
        .collect();
    assert_eq!(ids.len(), 3);
    let renewed = store
        .renew(lease.token, Duration::from_secs(60))
        .await
        .unwrap();
    assert!(matches!(renewed, RenewAnswer::Renewed { .. }));
    assert_eq!(
        store.begin(lease.token, &ids[..1]).await.unwrap(),
        BeginAnswer::Begun
    );
    let settled = store
        .settle(lease.token, &[Report::delivered(ids[0])])
        .await
        .unwrap();
    assert!(matches!(settled, SettleAnswer::Settled(_)));
    let again = store
        .settle(lease.token, &[Report::delivered(ids[0])])
        .await
        .unwrap();
    assert!(matches!(again, SettleAnswer::AlreadySettled(_)));
    assert_eq!(
        store.release(lease.token).await.unwrap(),
        ReleaseAnswer::Released(ids[1..].to_vec())
    );
    let lost = store
        .settle(lease.token, &[Report::delivered(ids[1])])
        .await
        .unwrap();
    assert_eq!(lost, SettleAnswer::LeaseLost);
    store.hold(&ids[1..2], &by).await.unwrap();
    store.unhold(&ids[1..2], &by).await.unwrap();
    store.requeue(&ids, &by).await.unwrap();
    let late = [Report::delivered(ids[1])];
    let kept = store.record_late(lease.token, &late).await.unwrap();
    assert_eq!(kept, [], "released, not lost");
    assert_eq!(store.late(ids[1]).await.unwrap(), []);
    let plan = RedrivePlan::default();
    let redrive = store.start_redrive(&plan, &by).await.unwrap();
    store.stop_redrive(redrive.id, &by).await.unwrap();
    store.resume_redrive(redrive.id, &by).await.unwrap();
    let stepped = store.step_redrive(10).await.unwrap();
    assert_eq!(store.redrives(10).await.unwrap(), stepped.as_slice());
    assert_eq!(store.redrive(redrive.id).await.unwrap(), stepped);
    assert_eq!(store.count_dead(&Default::default(), 9).await.unwrap(), 0);
    assert_eq!(store.history(ids[0]).await.unwrap().len(), 1);
    assert!(store.explain(ids[1]).await.unwrap().is_some());
    assert_eq!(
        store
            .list(&Default::default(), None, 10)
            .await
            .unwrap()
            .items
            .len(),
        4
    );
    // The delayed one may have come due meanwhile.
    assert!(matches!(
        store.queues(None, 1_000).await.unwrap()[0].1.ready,
        2 | 3
    ));
    assert!(
        store
            .wait(&"default".parse().unwrap(), Duration::from_secs(5))
            .await
            .unwrap()
    );
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_workers_share_few_servers() {
    let database = database().await;
    let bouncer = PgBouncer::start(database.url()).await;
    let options = PostgresOptions {
        pooler: Pooler::Transaction,
        ..PostgresOptions::new(bouncer.url(database.name()))
    };
    let store = PostgresStore::connect(&options).await.unwrap();
    let message = NewMessage::new("default".parse().unwrap(), json!(1));
    store.enqueue(&vec![message; 1_000]).await.unwrap();
    let workers: Vec<_> = (0..8)
        .map(|n| {
            let options = options.clone();
            tokio::spawn(async move {
                let store = PostgresStore::connect(&options).await.unwrap();
                let claim = Claim::new("default".parse().unwrap(), format!("w{n}"), 20);
                let mut delivered = 0;
                while let Some(lease) = store.claim(&claim).await.unwrap() {
                    let reports: Vec<_> = lease
                        .messages
                        .iter()
                        .map(|c| Report::delivered(c.message.id))
                        .collect();
                    delivered += reports.len();
                    store.settle(lease.token, &reports).await.unwrap();
                }
                delivered
            })
        })
        .collect();
    let mut delivered = 0;
    for worker in workers {
        delivered += worker.await.unwrap();
    }
    assert_eq!(delivered, 1_000);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// Statements have no name there, and on the command line.
#[tokio::test]
async fn memories_are_read_with_statements_without_a_name() {
    let database = database().await;
    let options = PostgresOptions {
        pooler: Pooler::Transaction,
        ..PostgresOptions::new(database.url())
    };
    let store = PostgresStore::connect(&options).await.unwrap();
    sqlx::raw_sql(
        "INSERT INTO logbook.items (item_type, title) VALUES ('task', 'one');
         INSERT INTO logbook.events (item_id, event_type) VALUES (1, 'note');
         INSERT INTO analysis.runs (source_type, source_id, pipeline_version) VALUES ('git', '1', 'v1');
         INSERT INTO analysis.knowledge_candidates (run_id, space, kind, title, content_md)
             VALUES (1, 'team:p', 'FACT', 'one', 'two');
         SELECT logbook.keep_memory('team:p', 'word')",
    )
    .execute(store.pool())
    .await
    .unwrap();
    let listing = Listing {
        spaces: vec!["team:p".to_owned()],
        limit: 10,
        ..Listing::default()
    };
    let listed = store.list_kept(&listing).await.unwrap().items;
    let read = store.read_kept(&listed[0].id).await.unwrap();
    assert_eq!(read.as_ref(), listed.first());
    let events = store.events(&EventFilter::default(), 10).await.unwrap();
    assert_eq!(events.len(), 1);
    let candidate = store.candidate(1).await.unwrap().unwrap();
    assert_eq!(candidate.title, "one");
}
