//! How many orders a client may place.

use super::{
    accept::token,
    bench::{metric, on_one, order, post, post_with},
};
use crate::{http::Answer, service::Service};

fn is_refused(answer: &Answer) -> bool {
    if answer.status != 429 {
        return false;
    }
    let said = answer.json();
    assert_eq!(said["error"], "RATE_LIMITED", "{said}");
    let retry_after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(retry_after >= 1, "{answer:?}");
    assert_eq!(said["retry_after"], retry_after, "{answer:?}");
    true
}

#[test]
fn a_burst_passes_and_the_next_call_is_limited() {
    on_one(async |mut bench| {
        bench.set(&[("rl_rate_per_min", "60"), ("rl_burst", "5")]);
        let service = bench.serve().await;
        let started = std::time::Instant::now();
        let mut passed = 0;
        let refused = loop {
            // Calls that are refused for another reason count too.
            let key = format!("key-{passed:04}");
            let body = if passed == 2 {
                "{}".to_owned()
            } else {
                order(&key, &[])
            };
            let answer = post(&service, &key, &body).await;
            if is_refused(&answer) {
                break answer;
            }
            passed += 1;
        };
        // One a second comes back while they are made.
        let most = 5 + started.elapsed().as_secs() + 1;
        assert!((5..=most).contains(&passed), "{passed} passed");
        assert_eq!(
            refused.header("x-ratelimit-limit"),
            Some("60"),
            "{refused:?}"
        );
        assert_eq!(
            refused.header("x-ratelimit-remaining"),
            Some("0"),
            "{refused:?}"
        );
        assert!(metric(&service, "rate_limited_total", "").await >= 1.0);
        let rows = bench
            .sql()
            .await
            .number("SELECT count(*) FROM idempo_ledger")
            .await;
        assert_eq!(
            rows,
            i64::try_from(passed).unwrap() - 1,
            "the refused and the bad left nothing"
        );
        service.stop().await;
    });
}

#[test]
fn every_client_has_limits_of_its_own() {
    on_one(async |mut bench| {
        bench.set(&[
            ("rl_rate_per_min", "1"),
            ("rl_burst", "2"),
            ("daily_quota", "100"),
        ]);
        let (first, lines) = token(&bench, "first");
        bench.configure(&lines);
        let (second, lines) = token(&bench, "second");
        bench.configure(&lines);
        let service = bench.serve().await;
        for token in [first, second] {
            let more = format!("authorization: Bearer {token}\r\n");
            let mut refused = 0;
            for number in 0..4 {
                let key = format!("key-{number:04}");
                let answer = post_with(&service, &key, &more, &order(&key, &[])).await;
                refused += usize::from(is_refused(&answer));
            }
            assert_eq!(refused, 2, "of four, with a burst of two");
        }
        service.stop().await;
    });
}

#[test]
fn the_daily_quota_survives_a_restart() {
    on_one(async |mut bench| {
        bench.set(&[("daily_quota", "7")]);
        let service = bench.serve().await;
        let place = async |service: &Service, number: u32| {
            let key = format!("key-{number:04}");
            post(service, &key, &order(&key, &[])).await
        };
        let mut accepted = 0;
        for number in 0..4 {
            accepted += u32::from(place(&service, number).await.status == 201);
        }
        assert_eq!(accepted, 4);
        service.stop().await;
        let service = bench.serve().await;
        for number in 4..20 {
            let answer = place(&service, number).await;
            if is_refused(&answer) {
                break;
            } else {
                accepted += u32::from(answer.status == 201)
            }
        }
        assert!((4..=7).contains(&accepted), "{accepted} of 7");
        assert!(is_refused(&place(&service, 99).await), "and so it stays");
        assert!(metric(&service, "quota_exceeded_total", "").await >= 1.0);
        service.stop().await;
    });
}
