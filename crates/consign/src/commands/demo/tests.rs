//! A demo that cannot fail shows nothing: broken stores must be found out.

use std::time::Duration;

use consign_kernel::{
    ManualClock, ReferenceStore,
    reference::{Flaw, Reference},
};
use jiff::Timestamp;
use tokio::time::sleep;

use super::{play, story::SceneWriter};
use crate::{failure::Failure, output::Output};

/// The story on a reference store that lives in real time, and what is wrong with that store.
async fn play_on(reference: Reference) -> Result<(), Failure> {
    let clock = ManualClock::at(Timestamp::now());
    let store = ReferenceStore::with(reference, clock.clone(), 7);
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(1)).await;
            clock.advance(Timestamp::now().duration_since(clock.now()));
        }
    });
    play(&store, &mut SceneWriter::new(Output::new(true))).await
}

#[track_caller]
fn assert_detected(played: Result<(), Failure>, what: &str) {
    match played {
        Err(Failure::Error { code, message, .. }) => {
            assert_eq!(code, "demo_failed");
            assert!(message.contains(what), "{message}");
        }
        other => panic!("the flaw was not detected: {other:?}"),
    }
}

#[tokio::test]
async fn a_sound_store_passes() {
    play_on(Reference::default()).await.unwrap();
}

#[tokio::test]
async fn a_store_that_does_not_fence_is_found_out() {
    let flawed = Reference::default().with_flaw(Flaw::NoTokenCheck);
    assert_detected(play_on(flawed).await, "late settle should be refused");
}

#[tokio::test]
async fn a_store_that_buries_the_neighbours_of_poison_is_found_out() {
    let flawed = Reference::default().with_flaw(Flaw::NoSoloRule);
    assert_detected(play_on(flawed).await, "Dead");
}
