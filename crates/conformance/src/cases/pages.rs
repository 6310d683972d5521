//! Pages of lists: how far they look, where they go on, and what they never show.

use consign_kernel::{Cursor, Filter, MessageId, Outcome, QueuePolicy, Report, StateKind, Store};
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, by, policy, s, settled},
};

fn of_state(state: StateKind) -> Filter {
    Filter {
        state: Some(state),
        ..Filter::default()
    }
}

/// All that a filter finds, page by page, each of which begins below the one before.
async fn walk(store: &dyn Store, filter: &Filter) -> Vec<MessageId> {
    let (mut found, mut before): (Vec<MessageId>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = store.list(filter, before, 3).await.expect("list answers");
        found.extend(page.items.iter().map(|listed| listed.id));
        let Some(next) = page.next else { return found };
        assert!(
            before.is_none_or(|before| next < before),
            "{filter:?}: it goes on"
        );
        before = Some(next);
    }
}

/// One message may have more attempts than a page looks at.
pub(crate) async fn pages_that_look_at_little_go_on_and_reach_everything(harness: &dyn Harness) {
    let patient = QueuePolicy {
        attempts_max: 50,
        ..policy()
    };
    let stage = Stage::with(harness, patient).await;
    let other = stage.add_queue("other", &policy()).await;
    let of_case = |n| {
        let mut message = stage.message(n);
        message
            .headers
            .insert("correlation_id".into(), json!("one"));
        message
    };
    let sent = stage
        .enqueue_all(&(0..6).map(of_case).collect::<Vec<_>>())
        .await;
    let first = stage.claim(6).await;
    for (n, id) in sent.iter().enumerate() {
        let is_hard = n == 1 || n == 3;
        let outcome = if is_hard {
            Outcome::Retry
        } else {
            Outcome::Delivered
        };
        stage.report(&first, *id, outcome).await;
    }
    for _ in 0..12 {
        stage.advance(s(3)).await;
        let lease = stage.claim(2).await;
        let retry = |id: &MessageId| Report::new(*id, Outcome::Retry);
        settled(
            stage
                .settle(&lease, &[retry(&sent[1]), retry(&sent[3])])
                .await,
        );
    }
    stage.advance(s(3)).await;
    let last = stage.claim(2).await;
    stage.report(&last, sent[3], Outcome::Delivered).await;
    stage.report(&last, sent[1], Outcome::Retry).await;

    let delivered: Vec<MessageId> = [5, 4, 3, 2, 0].map(|n: usize| sent[n]).to_vec();
    for walk_max in [2, 5] {
        let near = harness.another_with_short_walks(walk_max).await;
        let found = walk(&*near, &of_state(StateKind::Delivered)).await;
        assert_eq!(found, delivered, "{walk_max}");
        let here = Filter {
            queue: Some(stage.queue.clone()),
            ..of_state(StateKind::Delivered)
        };
        assert_eq!(walk(&*near, &here).await, delivered, "{walk_max}");
        let there = Filter {
            queue: Some(other.clone()),
            ..here.clone()
        };
        assert_eq!(walk(&*near, &there).await, [], "{walk_max}");
        let of_case = Filter {
            correlation_id: Some("one".into()),
            ..here.clone()
        };
        assert_eq!(walk(&*near, &of_case).await, delivered, "{walk_max}");
        let any = Filter {
            state: None,
            ..here
        };
        assert_eq!(walk(&*near, &any).await.len(), sent.len(), "{walk_max}");
    }
}

/// A page with limit zero has no next, however far the store would have searched.
pub(crate) async fn a_page_of_nothing_has_no_next(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue(5).await;
    stage.drain().await;
    stage.enqueue(5).await;
    let near = harness.another_with_short_walks(2).await;
    let states = StateKind::ALL.map(Some).into_iter().chain([None]);
    for state in states {
        for queue in [None, Some(stage.queue.clone())] {
            let filter = Filter {
                queue,
                state,
                ..Filter::default()
            };
            let page = near.list(&filter, None, 0).await.expect("list answers");
            assert_eq!((page.items.len(), page.next), (0, None), "{filter:?}");
        }
    }
}

/// No text of a message can hold it, so nothing is found; that is no error.
pub(crate) async fn a_filter_with_nul_finds_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut message = stage.message(0).with_key("k");
    message.headers.insert("correlation_id".into(), json!("k"));
    stage.dead_one().await;
    stage.enqueue_all(&[message]).await;
    let nul = || Some("k\0".to_owned());
    let any = Filter::default;
    let filters = [
        Filter {
            key: nul(),
            ..any()
        },
        Filter {
            code: nul(),
            ..any()
        },
        Filter {
            correlation_id: nul(),
            ..any()
        },
        Filter {
            key_prefix: nul(),
            ..any()
        },
        Filter {
            group: nul(),
            ..any()
        },
        Filter {
            headers: [("correlation_id".into(), "k\0".into())].into(),
            ..any()
        },
    ];
    for filter in filters {
        let page = stage.store.list(&filter, None, 10).await;
        let page = page.expect("list answers");
        assert_eq!((page.items.len(), page.next), (0, None), "{filter:?}");
    }
    let filter = Filter {
        code: nul(),
        ..any()
    };
    let page = stage.store.dead(&filter, None, 10).await;
    assert_eq!(page.expect("dead answers").items, []);
    let count = stage.store.count_dead(&filter, 10).await;
    assert_eq!(count.expect("count_dead answers"), 0);
}

/// While messages move, a list of one state shows them in that state or not at all.
pub(crate) async fn a_list_by_state_shows_no_other_state(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(20).await;
    let mover = harness.another().await;
    let moving = tokio::spawn(async move {
        for _ in 0..40 {
            mover.hold(&sent, &by()).await.expect("hold answers");
            mover.unhold(&sent, &by()).await.expect("unhold answers");
        }
    });
    while !moving.is_finished() {
        for state in [StateKind::Held, StateKind::Ready] {
            let page = stage.store.list(&of_state(state), None, 100).await;
            for listed in page.expect("list answers").items {
                assert_eq!(listed.state, state, "message {}", listed.id);
            }
            tokio::task::yield_now().await;
        }
    }
    moving.await.expect("all moves are answered");
}
