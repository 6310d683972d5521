//! Against a cluster of three NATS servers that loses one.

use consign_kernel::Outcome;
use consign_testkit::{NatsCluster, eventually_some};
use serde_json::json;

use crate::{
    brokers::{PATIENCE, Run, nothing_lost, numbered},
    fixture::sink,
    nats::{make_stream, observer, stored, stream_info},
};

#[tokio::test]
async fn a_cluster_that_loses_the_leader_of_a_stream_loses_no_message() {
    let mut cluster = NatsCluster::start().await;
    let urls = cluster.urls();
    let watcher = observer(&urls).await;
    make_stream(&watcher, json!({ "num_replicas": 3 })).await;
    let leader = eventually_some("the stream has a leader", PATIENCE, || async {
        let info = stream_info(&watcher).await;
        info["cluster"]["leader"].as_str().map(str::to_owned)
    })
    .await;

    let sink = sink(&format!(
        "kind = \"nats\"\nservers = {urls:?}\nsubject = \"orders.{{queue}}\""
    ))
    .await;
    let run = Run::of(1_000);
    let (tally, ()) = tokio::join!(run.through(&sink), async {
        run.reaches(200).await;
        cluster.node(&leader).kill9();
    });
    assert!(tally.retries + tally.doubted.len() > 0, "it was noticed");
    let found = stored(&watcher).await;
    nothing_lost(1_000, &found, &tally);
    assert_eq!(found.len(), 1_000, "resent messages were recognised");

    // The node returns and takes part again.
    cluster.node(&leader).start_again().await;
    let verdict = sink.deliver(&numbered(1_001)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    eventually_some("all three have everything", PATIENCE, || async {
        let info = stream_info(&watcher).await;
        let replicas = info["cluster"]["replicas"].as_array()?.clone();
        let current = |replica: &serde_json::Value| replica["current"] == true;
        (replicas.len() == 2 && replicas.iter().all(current)).then_some(())
    })
    .await;
}
