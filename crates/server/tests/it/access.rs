//! Who may call without a token, from where, and under which name.

use axum::http::Method;
use consign_server::{Scope, ServerOptions, Token, TokenEntry};
use serde_json::json;

use crate::bench::{Bench, LOCAL, on_stores, peer, request, set};

on_stores!(
    without_tokens_only_this_machine_is_served,
    names_a_web_page_could_use_are_refused,
    rejects_what_pages_of_other_sites_send_without_a_body,
    metrics_are_open_where_the_options_say_so,
    the_audit_names_the_token,
);

fn secret(scope: Scope) -> String {
    format!("secret-of-{scope}")
}

fn options() -> ServerOptions {
    let entry = |scope: Scope| TokenEntry {
        name: format!("the {scope}"),
        hash: Token::new(secret(scope)).hash(),
        scopes: vec![scope],
    };
    ServerOptions {
        tokens: Scope::ALL.map(entry).into(),
        metrics_open: Some(false),
        ..ServerOptions::default()
    }
}

async fn without_tokens_only_this_machine_is_served(bench: Bench) {
    for address in [LOCAL, "127.3.2.1:5", "[::1]:5", "[::ffff:127.0.0.1]:5"] {
        let mut request = request(Method::GET, "/v1/queues", None);
        request.extensions_mut().insert(peer(address));
        bench.call(request).await.is(200);
    }
    for address in ["192.0.2.7:5", "[2001:db8::1]:5", "10.0.0.1:5"] {
        let mut request = request(Method::GET, "/v1/queues", None);
        request.extensions_mut().insert(peer(address));
        bench.call(request).await.is_problem(403, "not_local");
    }
    for header in [
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "forwarded",
        "via",
        "x-real-ip",
        "cf-connecting-ip",
        "fastly-client-ip",
        "x-azure-clientip",
        "x-envoy-external-address",
    ] {
        let mut request = request(Method::GET, "/v1/queues", None);
        set(&mut request, &[(header, "192.0.2.7")]);
        bench.call(request).await.is_problem(403, "not_local");
    }
    let open = bench.with_options(&ServerOptions {
        allow_anonymous: true,
        ..ServerOptions::default()
    });
    let mut request = request(Method::GET, "/v1/queues", None);
    request.extensions_mut().insert(peer("192.0.2.7:5"));
    open.call(request).await.is(200);
}

/// DNS rebinding: the page's own name suddenly points to this machine.
async fn names_a_web_page_could_use_are_refused(bench: Bench) {
    let ask = async |bench: &Bench, host: &str, path: &str| {
        let mut request = request(Method::GET, path, None);
        set(&mut request, &[("host", host)]);
        bench.call(request).await
    };
    for host in [
        "localhost",
        "LOCALHOST:8787",
        "127.0.0.1:8787",
        "[::1]:8787",
        "10.1.2.3",
    ] {
        ask(&bench, host, "/v1/queues").await.is(200);
    }
    for host in [
        "evil.example",
        "evil.example:8787",
        "127.0.0.1.evil.example",
        "localhost.",
        "",
    ] {
        for path in ["/v1/queues", "/metrics"] {
            ask(&bench, host, path)
                .await
                .is_problem(403, "host_not_allowed");
        }
        ask(&bench, host, "/healthz").await.is(200);
    }
    let bench = bench.with_options(&ServerOptions {
        allowed_hosts: vec!["queue.internal".into()],
        ..ServerOptions::default()
    });
    ask(&bench, "Queue.Internal:8787", "/v1/queues")
        .await
        .is(200);
    let evil = ask(&bench, "evil.example", "/v1/queues").await;
    evil.is_problem(403, "host_not_allowed");
    let bench = bench.with_options(&options());
    let mut request = request(Method::GET, "/v1/queues", None);
    let bearer = format!("Bearer {}", secret(Scope::Auditor));
    set(
        &mut request,
        &[("host", "any.example"), ("authorization", &bearer)],
    );
    bench.call(request).await.is(200);
}

/// A page of any site can make a browser on this machine send a request without a body.
async fn rejects_what_pages_of_other_sites_send_without_a_body(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    let lease = bench.claim("mail", 1).await;
    let path = format!("/v1/leases/{}/release", lease["token"].as_str().unwrap());
    let release = async |headers: &[(&str, &str)]| {
        let mut request = request(Method::POST, &path, None);
        set(&mut request, headers);
        bench.call(request).await
    };
    for headers in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "same-origin"),
        ],
    ] {
        let answer = release(headers).await;
        answer.is_problem(403, "origin_not_allowed");
        assert_eq!(bench.state_of(id).await, "leased");
    }
    release(&[("origin", "http://localhost:3000")])
        .await
        .is(200);
    assert_eq!(bench.state_of(id).await, "ready");
    for headers in [&[][..], &[("sec-fetch-site", "same-origin")]] {
        assert_ne!(release(headers).await.status, 403);
    }
}

async fn metrics_are_open_where_the_options_say_so(bench: Bench) {
    let bench = bench.with_state(|state| state.with_metrics(|| "up 1\n".to_owned()));
    let from = |address: &str| {
        let mut request = request(Method::GET, "/metrics", None);
        request.extensions_mut().insert(peer(address));
        request
    };
    let local = bench.call(from(LOCAL)).await;
    assert_eq!(local.text, "up 1\n");
    assert!(
        local
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    let cases = [
        (None, 200, 401),
        (Some(true), 200, 200),
        (Some(false), 401, 401),
    ];
    let mut bench = bench;
    for (open, local, remote) in cases {
        bench = bench.with_options(&ServerOptions {
            metrics_open: open,
            ..options()
        });
        let answer = bench.call(from(LOCAL)).await;
        assert_eq!(answer.status, local, "{open:?}");
        let answer = bench.call(from("192.0.2.7:5")).await;
        assert_eq!(answer.status, remote, "{open:?}");
    }
}

async fn the_audit_names_the_token(bench: Bench) {
    let bench = bench.with_options(&options());
    let bearer = format!("Bearer {}", secret(Scope::Operator));
    for (said, actor) in [
        (None, "the operator"),
        (Some("Ada"), "the operator, Ada (unverified)"),
    ] {
        let body = json!({"reason": "x"});
        let mut request = request(Method::POST, "/v1/queues/mail/pause", Some(body));
        set(&mut request, &[("authorization", &bearer)]);
        if let Some(said) = said {
            set(&mut request, &[("x-consign-actor", said)]);
        }
        bench.call(request).await.is(200);
        let audit = bench.store.audit(None, None, 1).await.unwrap();
        assert_eq!(audit[0].actor, actor);
    }
}
