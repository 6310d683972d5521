use std::time::Instant;

use serde_json::Map;

use super::*;
use crate::{
    Masker,
    broker::{tests::order, vetted},
};

const TIMEOUT: Duration = Duration::from_millis(30);

async fn send(paper: &Paper, order: &Order, attempt_no: u32) -> Result<ExecResult, BrokerFailure> {
    send_as(paper, order, attempt_no, "local/key-00001").await
}

async fn send_as(
    paper: &Paper,
    order: &Order,
    attempt_no: u32,
    key: &str,
) -> Result<ExecResult, BrokerFailure> {
    let headers = Map::new();
    let outgoing = OutgoingOrder {
        order,
        key,
        timeout: TIMEOUT,
        attempt_no,
        headers: &headers,
    };
    paper.send(&outgoing).await
}

/// One full fill within the range, at the time of the request, under the order's own name.
#[tokio::test]
async fn a_market_order_is_filled_whole() {
    let order = order("");
    let paper = Paper::new(7, Script::default());
    for index in 0..200 {
        let key = format!("local/key-{index:05}");
        let result = send_as(&paper, &order, 1, &key).await.unwrap();
        let px = result.avg_price.unwrap();
        assert!(px.decimal() >= Decimal::new(146_120, 3), "{px}");
        assert!(px.decimal() < Decimal::new(146_130, 3), "{px}");
        assert!(px.decimal().scale() <= 5, "{px}");
        assert_eq!(result.fills.len(), 1);
        assert_eq!(result.executed_qty, order.qty);
        assert_eq!(result.completed_at, order.requested_at);
        assert_eq!(result.fills[0].ts, order.requested_at);
        assert_eq!(result.broker.order_ref.as_deref(), Some("paper-ord-1"));
        assert_eq!((result.cost, result.slippage), (None, None));
        assert_eq!(result.latency_ms, LatencyMs::default());
        assert_eq!(
            vetted(result.clone(), &order, None, &Masker::default()),
            Ok(result)
        );
    }
}

/// The same key gets the same result from every sender: what `takes_keys` promises.
#[tokio::test]
async fn the_same_seed_and_key_give_the_same_result() {
    let order = order("");
    let first = send(&Paper::new(7, Script::default()), &order, 1)
        .await
        .unwrap();
    let again = send(&Paper::new(7, Script::default()), &order, 5)
        .await
        .unwrap();
    assert_eq!(first.to_json(), again.to_json());
    let mut prices = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let paper = Paper::new(seed, Script::default());
        prices.insert(send(&paper, &order, 1).await.unwrap().avg_price);
    }
    assert!(prices.len() > 10, "{prices:?}");
}

#[tokio::test]
async fn a_limit_order_is_filled_at_its_limit() {
    let order = order(r#","price":99.5"#);
    let result = send(&Paper::default(), &order, 1).await.unwrap();
    assert_eq!(result.avg_price, order.price);
}

#[tokio::test]
async fn faults_apply_by_tag_and_end_with_their_attempts() {
    let table: &[(&str, Reason, u32, bool)] = &[
        ("paper:timeout=1", Reason::BrokerTimeout, 1, true),
        ("paper:timeout=2", Reason::BrokerTimeout, 2, true),
        ("paper:down=3", Reason::BrokerDown, 3, false),
        ("paper:internal=1", Reason::InternalError, 1, false),
        ("paper:rate_limited=1", Reason::RateLimited, 1, false),
        ("paper:rejected=1", Reason::BrokerRejected, 1, false),
    ];
    for (tag, reason, times, is_uncertain) in table {
        let order = order(&format!(r#","tags":["qa","{tag}"]"#));
        for attempt_no in 1..=*times {
            let failure = send(&Paper::default(), &order, attempt_no)
                .await
                .unwrap_err();
            assert_eq!(failure.reason, *reason, "{tag}");
            assert_eq!(failure.is_uncertain, *is_uncertain, "{tag}");
            let asks_for_rest = *reason == Reason::RateLimited;
            assert_eq!(failure.retry_in.is_some(), asks_for_rest, "{tag}");
        }
        let result = send(&Paper::default(), &order, times + 1).await;
        assert!(result.is_ok(), "{tag}: {result:?}");
    }
    let order = order(r#","tags":["paper:down"]"#);
    assert!(send(&Paper::default(), &order, 1_000).await.is_err());
}

#[tokio::test]
async fn faults_apply_by_instrument_and_the_most_specific_wins() {
    let paper = Paper::new(0, "*:down; USDJPY:rejected".parse().unwrap());
    let reason = async |order: &Order| send(&paper, order, 1).await.map_err(|f| f.reason);
    assert_eq!(reason(&order("")).await, Err(Reason::BrokerRejected));
    let tagged = order(r#","tags":["paper:internal"]"#);
    assert_eq!(reason(&tagged).await, Err(Reason::InternalError));
    let other = Order {
        instrument: "EURUSD".to_owned(),
        ..order("")
    };
    assert_eq!(reason(&other).await, Err(Reason::BrokerDown));
}

#[tokio::test]
async fn executes_a_part_by_script() {
    for (tag, executed) in [("paper:partial", "0.05"), ("paper:partial=40", "0.04")] {
        let order = order(&format!(r#","tags":["{tag}"]"#));
        let result = send(&Paper::default(), &order, 1).await.unwrap();
        assert_eq!(result.executed_qty.to_string(), executed);
        assert_eq!(result.faults(&order, None), []);
    }
}

#[tokio::test]
async fn a_timeout_takes_its_time_and_slowness_beyond_it_is_one() {
    for (script, is_in_time) in [
        ("timeout=1", false),
        ("slow=5000", false),
        ("slow=10", true),
    ] {
        let paper = Paper::new(0, format!("USDJPY:{script}").parse().unwrap());
        let began = Instant::now();
        let result = send(&paper, &order(""), 1).await;
        let took = began.elapsed();
        match result {
            Ok(result) => assert_eq!((is_in_time, result.latency_ms.broker_rtt), (true, 10)),
            Err(failure) => {
                assert!(!is_in_time);
                assert_eq!(failure.reason, Reason::BrokerTimeout);
                assert!(took >= TIMEOUT, "{took:?}");
            }
        }
    }
}

#[test]
fn rejects_invalid_scripts() {
    for text in ["", " ; ", "USDJPY:down", "*:slow=5; EURUSD : timeout=2 ;"] {
        assert!(text.parse::<Script>().is_ok(), "{text}");
    }
    for text in [
        "down",
        "USDJPY:dwon",
        "*:slow",
        "*:partial=0",
        "*:partial=101",
        "*:down=x",
        "*:",
    ] {
        let line = text.to_owned();
        assert_eq!(text.parse::<Script>(), Err(BadScript { line }), "{text}");
    }
}
