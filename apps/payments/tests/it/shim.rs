//! The rail of the examples, run by Python, and the real http rail.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use consign_kernel::Fence;
use consign_payments::{
    Dispatch, HttpRail, OutboxId, PaymentsOptions, Rail, RailKind, RailLookup, Secret, SubmitResult,
};
use uuid::Uuid;

use crate::{http_rail::dispatch, support::SOON};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The program of the page on the rail's contract.
struct Shim {
    child: Child,
    url: String,
}

impl Shim {
    fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/rail.py");
        let mut child = Command::new("python3")
            .args([script, "0"])
            .env("RAIL_TOKEN", "tulip")
            .env("RAIL_SIGNING_SECRET", SECRET)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut url = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        Self { child, url }
    }

    fn options(&self) -> PaymentsOptions {
        PaymentsOptions {
            rail: RailKind::Http,
            rail_url: Some(self.url.clone()),
            rail_status_url: Some(format!("{}/{{reference}}", self.url)),
            rail_token: Some(Secret::new("tulip")),
            rail_signing_secret: Some(Secret::new(SECRET)),
            ..PaymentsOptions::default()
        }
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

fn payment(n: u128, amount_minor: u64, fence: i64) -> Dispatch {
    Dispatch {
        reference: OutboxId(Uuid::from_u128(n)),
        amount_minor,
        fence: Fence(fence),
        ..dispatch()
    }
}

#[tokio::test]
async fn the_example_of_a_rail_keeps_the_contract() {
    let shim = Shim::start();
    let rail = HttpRail::new(&shim.options()).unwrap();
    let first = rail.submit(&payment(1, 1_250, 7), SOON).await;
    let SubmitResult::Replied(reply) = &first else {
        panic!("{first:?}")
    };
    assert!(
        reply.is_success && reply.rail_reference.is_some(),
        "{reply:?}"
    );
    let again = rail.submit(&payment(1, 1_250, 8), SOON).await;
    assert_eq!(again, first, "a reference is paid once");
    let known = rail.query(payment(1, 0, 0).reference, SOON).await;
    assert_eq!(known, RailLookup::Found(reply.clone()));
    let late = rail.submit(&payment(1, 1_250, 7), SOON).await;
    assert!(
        matches!(late, SubmitResult::Lost { .. }),
        "an older lease: {late:?}"
    );
    let unknown = rail.query(payment(2, 0, 0).reference, SOON).await;
    assert_eq!(unknown, RailLookup::NotFound);
    let refused = rail.submit(&payment(3, 2_000_000, 9), SOON).await;
    let code = match &refused {
        SubmitResult::Replied(reply) => reply.error_code.as_deref(),
        other => panic!("{other:?}"),
    };
    assert_eq!(code, Some("INSUFFICIENT_FUNDS"));
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for wrong in [Some(Secret::new(other)), None] {
        let options = PaymentsOptions {
            rail_signing_secret: wrong,
            ..shim.options()
        };
        let stranger = HttpRail::new(&options).unwrap();
        let refused = stranger.submit(&payment(4, 1, 9), SOON).await;
        assert!(
            matches!(refused, SubmitResult::NotSent { .. }),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn credentials_are_read_from_files() {
    let shim = Shim::start();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let options = PaymentsOptions {
        rail_token: None,
        rail_token_file: file("token", "tulip\n"),
        rail_signing_secret: None,
        rail_signing_secret_file: file("secret", SECRET),
        ..shim.options()
    };
    let rail = HttpRail::new(&options).unwrap();
    let paid = rail.submit(&payment(1, 1_250, 7), SOON).await;
    assert!(matches!(paid, SubmitResult::Replied(_)), "{paid:?}");
    let both = PaymentsOptions {
        rail_token: Some(Secret::new("tulip")),
        ..options.clone()
    };
    let empty = PaymentsOptions {
        rail_token_file: file("empty", "\n"),
        ..options.clone()
    };
    let bad = PaymentsOptions {
        rail_signing_secret_file: file("bad", "tulip"),
        ..options
    };
    for (options, key) in [
        (both, "payments.rail_token_file: "),
        (empty, "payments.rail_token_file: "),
        (bad, "payments.rail_signing_secret: "),
    ] {
        let error = HttpRail::new(&options).unwrap_err().to_string();
        assert!(error.starts_with(key), "{error}");
        assert!(!error.contains("tulip"), "{error}");
    }
}
