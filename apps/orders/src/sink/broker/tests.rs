use super::*;
use crate::{OrderRequest, Rules, ServerFields, Subject};

pub(super) fn order(members: &str) -> Order {
    let body = format!(
        r#"{{"order_id":"ord-1","instrument":"USDJPY","side":"BUY","qty":0.1,
            "idempotency_key":"key-00001","requested_at":"2025-08-24T00:00:00Z"{members}}}"#
    );
    let rules = Rules::default();
    let request = OrderRequest::parse(body.as_bytes(), &rules).unwrap();
    let at = jiff::Timestamp::MAX;
    let filled = ServerFields::new(&request, &rules, at, uuid::Uuid::nil());
    Order::new(request, filled)
}

fn failed(order: &Order, reason: Reason) -> ExecResult {
    let at = order.requested_at;
    ExecResult::failed(Subject::from(order), "http", reason, "no", at)
}

fn step() -> Option<Amount> {
    Some("0.01".parse().unwrap())
}

fn good(order: &Order) -> ExecResult {
    let text = format!(
        r#"{{"status":"ok","order_id":"{}","instrument":"USDJPY","side":"BUY",
            "requested_at":"2025-08-24T00:00:00Z","completed_at":"2025-08-24T00:00:01Z",
            "trace_id":"{}","idempotency_key":"key-00001","qty_sent":0.1,"fills":[{{"px":146.1,"qty":0.1,"ts":"2025-08-24T00:00:01Z"}}],
            "avg_price":146.1,"executed_qty":0.1,"broker":{{"name":"http","order_ref":"7"}}}}"#,
        order.order_id, order.trace_id
    );
    ExecResult::parse(&text).unwrap()
}

#[test]
fn a_good_answer_stays_as_it_is() {
    let order = order("");
    assert_eq!(
        vetted(good(&order), &order, step(), &Masker::default()),
        Ok(good(&order))
    );
    let mut odd = good(&order);
    odd.avg_price = Some("146.2".parse().unwrap());
    assert_eq!(
        vetted(odd, &order, step(), &Masker::default())
            .unwrap()
            .warnings
            .len(),
        1
    );
}

/// Every failure of a broker is certain, except a timeout.
#[test]
fn a_failure_keeps_its_reason() {
    let order = order("");
    let table = [
        (Reason::BrokerRejected, Reason::BrokerRejected, false),
        (Reason::BrokerTimeout, Reason::BrokerTimeout, true),
        (Reason::BrokerDown, Reason::BrokerDown, false),
        (Reason::RateLimited, Reason::RateLimited, false),
        (Reason::ValidationError, Reason::ValidationError, false),
        (Reason::IdempotencyConflict, Reason::BrokerRejected, false),
    ];
    for (reported, reason, is_uncertain) in table {
        let failure =
            vetted(failed(&order, reported), &order, step(), &Masker::default()).unwrap_err();
        assert_eq!(
            (failure.reason, failure.is_uncertain),
            (reason, is_uncertain)
        );
        assert_eq!(failure.message, "no");
    }
}

/// Whatever breaks the contract may have been executed.
#[test]
fn an_answer_that_breaks_the_contract_is_in_doubt() {
    let order = order("");
    let mut other = good(&order);
    other.order_id = "ord-2".into();
    let failure = vetted(other, &order, step(), &Masker::default()).unwrap_err();
    assert_eq!(failure.reason, Reason::InternalError);
    assert!(failure.is_uncertain);
    let mut error = failed(&order, Reason::BrokerRejected);
    error.executed_qty = "0.1".parse().unwrap();
    assert!(
        vetted(error, &order, step(), &Masker::default())
            .unwrap_err()
            .is_uncertain
    );
}

/// An answer about another order, or from another time, never ends an order.
#[test]
fn an_answer_about_another_order_is_never_final() {
    let nothing = |change: fn(&mut ExecResult)| {
        let order = order("");
        let mut answer = good(&order);
        answer.fills.clear();
        answer.executed_qty = Amount::ZERO;
        change(&mut answer);
        vetted(answer, &order, step(), &Masker::default()).unwrap_err()
    };
    let ours = nothing(|_| {});
    assert_eq!(
        (ours.reason, ours.is_uncertain),
        (Reason::BrokerRejected, false)
    );
    let others: [fn(&mut ExecResult); 4] = [
        |answer| answer.order_id = "ord-2".into(),
        |answer| answer.instrument = "EURUSD".into(),
        |answer| answer.side = None,
        |answer| answer.completed_at = "2025-08-23T20:00:00Z".parse().unwrap(),
    ];
    for change in others {
        let failure = nothing(change);
        assert_eq!(
            (
                failure.reason,
                failure.is_uncertain,
                failure.traded.as_ref()
            ),
            (Reason::InternalError, true, None),
            "{failure}"
        );
    }
}

/// A fill-or-kill order that was filled in part ends at once, whatever else is wrong, and with
/// what was traded.
#[test]
fn a_part_of_fill_or_kill_is_final() {
    let order = order(r#","time_in_force":"FOK""#);
    let mut part = good(&order);
    part.executed_qty = "0.04".parse().unwrap();
    let failure = vetted(part.clone(), &order, step(), &Masker::default()).unwrap_err();
    assert_eq!(
        (failure.reason, failure.is_uncertain),
        (Reason::BrokerRejected, false)
    );
    assert!(failure.message.contains("0.04 of 0.1"), "{failure}");
    let reported = failed(&order, failure.reason);
    let kept = failure.traded.unwrap().added_to(reported);
    assert_eq!(kept.status, ExecStatus::Error);
    assert_eq!(
        (kept.executed_qty, kept.fills, kept.broker.order_ref),
        (part.executed_qty, part.fills, part.broker.order_ref)
    );
}
