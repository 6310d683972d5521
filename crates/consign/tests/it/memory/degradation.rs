//! The manual degradation test of the specification, as printed: curl, psql, `work --once`.

use std::{path::Path, process::Command};

use consign_testkit::OpenMemory;

use super::{
    gateway::{audits, use_openmemory},
    switch::Switch,
};
use crate::orders::bench::{Bench, Kind};

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_degradation_test_passes() {
    let mut bench = Bench::start(Kind::Postgres).await;
    let mut server = OpenMemory::start().await;
    use_openmemory(&mut bench, &server);
    let gateway = bench.serve().await;
    let switch = Switch::new(&bench);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/degradation");
    let command = || {
        let mut command = Command::new(&script);
        command
            .args([switch.stop(), switch.start()])
            .current_dir(bench.consign.folder())
            .env("POSTGRES_DSN", bench.direct())
            .env("GATEWAY_URL", format!("http://{}", gateway.address()))
            .env("CONSIGN", env!("CARGO_BIN_EXE_consign"))
            .env("PATIENCE", "60");
        command
    };
    let ran = switch.run(command(), &mut server).await.expect(0);
    for told in ["\"action\":\"deferred\"", "pending", "is sent"] {
        assert!(ran.stdout.contains(told), "{told}: {ran:#?}");
    }
    let reasons = audits(&bench).await;
    let last = reasons.last().unwrap();
    assert_eq!(last.0, "outbox_flush_success", "{reasons:?}");
    // The same text again: nobody can say that the server still has it while it is away, so it is put
    // off, and found when it is delivered.
    switch.run(command(), &mut server).await.expect(0);
    let reasons = audits(&bench).await;
    let last = reasons.last().unwrap();
    assert_eq!(last.0, "outbox_flush_dedup_hit", "{reasons:?}");
    gateway.stop().await;
    bench.doctor();
}
