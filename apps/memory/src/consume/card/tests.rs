use consign_scm::{Change, PatchState, Provider, Repo};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::payload_sha;

const SHA: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

pub(in crate::consume) fn repo(provider: Provider, url: &str) -> Repo {
    Repo {
        repo_id: 1,
        provider,
        url: url.to_owned(),
        project_key: None,
        default_branch: None,
        created_at: Timestamp::UNIX_EPOCH,
    }
}

pub(in crate::consume) fn change(message: &str) -> Change {
    Change {
        position: 7,
        repo_id: 1,
        source_id: "git:1:ab12".to_owned(),
        rev_or_sha: "ab12".to_owned(),
        author_raw: "Ann Author <ann@h.example>".to_owned(),
        ts: Some("2024-01-15T12:00:00Z".parse().unwrap()),
        message: message.to_owned(),
        is_merge: false,
        bulk_reason: None,
        meta_json: json!({
            "paths": ["src/a/x.rs", "src/a/y.rs", {"path": "src/b.rs"}], "paths_total": 5,
            "additions": 10, "deletions": 2, "parents": ["00"], "record_sha256": SHA,
        }),
    }
}

/// The text that would be stored, and the request.
fn made(change: &Change, policy: &Policy) -> (String, StoreRequest) {
    let repo = repo(Provider::Git, "https://h.example/g/p.git");
    let cards = Cards {
        repo: &repo,
        kind: CardKind::Fact,
        policy,
    };
    let request = cards.request(change, None);
    let text = match (&request.payload_md, &request.card) {
        (Some(text), None) => text.clone(),
        (None, Some(fields)) => {
            Card::read(fields)
                .expect("a card that is complete")
                .build()
                .text
        }
        both => panic!("{both:?}"),
    };
    (text, request)
}

#[test]
fn a_commit_becomes_a_card() {
    let commit = change("Press once\n\nTwice breaks it.\nReally.\n\nSee the manual.\n");
    let (text, request) = made(&commit, &Policy::default());
    let expected = format!(
        "[Kind] FACT\n[Owner] ann@h.example\n[Module] p/src\n[Visibility] team\n[TTL] mid\n\
         [Confidence] high\n\n[Summary]\nPress once\n\n[Details]\n1) Twice breaks it.\nReally.\n\
         2) See the manual.\n3) Changed: src/a/x.rs, src/a/y.rs, src/b.rs and 2 more\n\
         4) +10 -2 lines\n5) git:1:ab12 of 2024-01-15T12:00:00Z\n\n[Evidence]\n\
         - uri=git://h.example/g/p/commit/ab12\n  sha256={SHA}\n  git_commit=ab12"
    );
    assert_eq!(text, expected);
    assert_eq!(request.target_space, None, "the gateway's team");
    assert!(!request.is_bulk);
}

/// The stored diff is referenced beside the text, never in it.
#[test]
fn a_patch_that_is_here_does_not_change_the_text() {
    let policy = Policy::default();
    let repo = repo(Provider::Git, "/srv/p.git");
    let cards = Cards {
        repo: &repo,
        kind: CardKind::Fact,
        policy: &policy,
    };
    let patch = PatchState {
        blob_id: 1,
        source_id: "1:ab12".to_owned(),
        source_type: "git".to_owned(),
        uri: Some("scm/x.diff".to_owned()),
        evidence_uri: Some(format!("memory://patch_blobs/git/1:ab12/{SHA}")),
        sha256: SHA.to_owned(),
        size_bytes: Some(1),
        format: "diff".to_owned(),
        meta_json: json!({}),
    };
    let commit = change("x");
    let (without, with) = (
        cards.request(&commit, None),
        cards.request(&commit, Some(&patch)),
    );
    assert_eq!(without.card, with.card);
    assert_eq!(with.evidence.len(), 2);
    assert_eq!(with.evidence[0], without.evidence[0]);
    assert_eq!(with.evidence[1]["source_id"], "1:ab12");
    let pending = PatchState {
        evidence_uri: None,
        ..patch
    };
    assert_eq!(cards.request(&commit, Some(&pending)).evidence.len(), 1);
}

/// Every commit message gives a storable card: no commit may block a repository.
#[test]
fn any_commit_makes_a_card_that_is_complete() {
    let policy = Policy::default();
    let long = "w ".repeat(3_000);
    let messages = [
        "",
        " \n\n ",
        "[Summary]",
        "x\n\n[Evidence]\n- uri=git://evil",
        "a\u{1b}[2J\u{7}b\n\u{8}",
        "x\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@",
        "x\r\n\r\ny\r\n",
        &long,
        "\u{2028}\n\n\u{2028}",
        "x\n  [Owner] somebody else",
    ];
    let authors = [
        "",
        " ",
        "<>",
        "Ann",
        "Ann <",
        "<ann@h.example>",
        "A\nB <a\tb@c>",
        &long,
    ];
    let metas = [
        json!({}),
        json!(null),
        json!({"paths": []}),
        json!({"paths": ["", "/", 7]}),
        json!({"paths": [long.as_str()], "record_sha256": "x"}),
    ];
    for (message, author, meta) in messages.iter().flat_map(|message| {
        let pairs = authors
            .iter()
            .flat_map(|author| metas.iter().map(move |meta| (*author, meta)));
        pairs.map(|(author, meta)| (*message, author, meta))
    }) {
        let mut commit = change(message);
        commit.author_raw = author.to_owned();
        commit.meta_json = meta.clone();
        let (text, _) = made(&commit, &policy);
        let chars = text.chars().count() as u64;
        assert!(
            chars <= CARD_CHARS_MAX,
            "{chars}: {message:.20} {author:.20}"
        );
        assert!(!text.contains('\u{1b}'));
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("[Evidence]"))
                .count(),
            1,
            "{text}"
        );
        assert_eq!(made(&commit, &policy).0, text);
    }
}

/// Two commits never make the same card, however alike they are.
#[test]
fn cards_of_two_commits_differ() {
    for bulk_reason in [None, Some("large_diff:2000".to_owned())] {
        let one = Change {
            bulk_reason,
            ..change("again")
        };
        let mut two = one.clone();
        (two.source_id, two.rev_or_sha) = ("git:1:cd34".to_owned(), "cd34".to_owned());
        let policy = Policy::default();
        assert_ne!(
            payload_sha(&made(&one, &policy).0),
            payload_sha(&made(&two, &policy).0)
        );
    }
}

/// A bulk change gets a short card, as short as the policy requires.
#[test]
fn one_of_many_is_as_short_as_the_policy_wants_it() {
    let commit = Change {
        bulk_reason: Some("large_diff:4321".to_owned()),
        ..change(&"Reformat everything ".repeat(30))
    };
    let policy = Policy::default();
    let (text, request) = made(&commit, &policy);
    assert!(request.is_bulk);
    assert_eq!(request.kind.as_deref(), Some("FACT"));
    assert_eq!(text.chars().count() as u64, policy.bulk_max_chars);
    assert!(
        text.starts_with("[Kind] FACT\n[Module] p/src\n[TTL] short\n[Summary]\nReformat"),
        "{text}"
    );
    assert!(text.ends_with("…\n[Evidence]\ngit:1:ab12"), "{text}");

    let allowed = Policy {
        bulk_mode: BulkMode::Allow,
        ..Policy::default()
    };
    let (text, request) = made(&commit, &allowed);
    assert!(request.is_bulk && text.contains("[TTL] short") && text.contains("large_diff:4321"));
    // No room for anything: the policy decides about the whole card.
    let none = Policy {
        bulk_max_chars: 20,
        ..Policy::default()
    };
    assert!(made(&commit, &none).0.contains("[Details]"));
}

#[test]
fn a_card_fits_into_a_narrow_policy() {
    let commit = change(&format!("x\n\n{}", "A long story. ".repeat(20)));
    let narrow = Policy {
        max_chars: 450,
        ..Policy::default()
    };
    let (text, _) = made(&commit, &narrow);
    assert!(text.chars().count() <= 450, "{text}");
    assert!(text.contains(SHA), "{text}");
}

#[test]
fn cards_name_merges_and_projects() {
    let mut commit = change("Merge branch");
    commit.is_merge = true;
    commit.meta_json["parents"] = json!(["00", "11"]);
    let mut repo = repo(Provider::Git, "/srv/p.git");
    repo.project_key = Some("shop".to_owned());
    let policy = Policy::default();
    let cards = Cards {
        repo: &repo,
        kind: CardKind::Decision,
        policy: &policy,
    };
    let request = cards.request(&commit, None);
    assert_eq!(request.target_space.as_deref(), Some("team:shop"));
    let fields = request.card.unwrap();
    assert_eq!(fields["module"], "shop/src");
    assert_eq!(fields["kind"], "DECISION");
    let details = fields["details"].as_array().unwrap();
    assert!(
        details.contains(&Value::from("merge of 2 parents, +10 -2 lines")),
        "{details:?}"
    );
}
