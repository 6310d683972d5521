//! Cards of commits and revisions.
//!
//! A card depends on the row alone, not on the clock or fetched changes: the same change always
//! gives the same card, which is stored once.

mod facts;
#[cfg(test)]
pub(super) mod tests;

use consign_scm::{Change, PatchState, Provider, Repo};
use serde_json::{Value, json};

use self::facts::Facts;
use super::place;
use crate::{
    StoreRequest,
    card::{Card, CardEvidence, CardKind, Confidence, Ttl, Visibility, is_heading},
    policy::{BulkMode, Policy},
};

/// Limit of the default policy; a policy may allow less.
const CARD_CHARS_MAX: u64 = 1_200;
/// Combinations of paragraphs and file names, tried until the card is short enough.
const SHAPES: [(usize, usize); 7] = [(6, 10), (4, 10), (2, 10), (1, 10), (1, 3), (0, 3), (0, 0)];
const OWNER_CHARS_MAX: usize = 100;
const MODULE_CHARS_MAX: usize = 150;
/// Minimum of a very short card.
const SUMMARY_CHARS_MIN: usize = 20;
/// The module is shown only if this much of the summary still fits.
const SUMMARY_CHARS_GOOD: usize = 60;

/// Builds cards of a repository.
pub(super) struct Cards<'a> {
    pub(super) repo: &'a Repo,
    pub(super) kind: CardKind,
    pub(super) policy: &'a Policy,
}

impl Cards<'_> {
    /// The memory of a change. The location of its diff is in the evidence, not in the text.
    pub(super) fn request(&self, change: &Change, patch: Option<&PatchState>) -> StoreRequest {
        let facts = Facts::of(self.repo, change);
        let is_bulk = change.bulk_reason.is_some();
        let card = self.fitted(change, &facts);
        let evidence = card
            .evidence_values()
            .into_iter()
            .chain(patch.and_then(reference));
        let evidence = evidence.collect();
        let short = match self.policy.bulk_mode {
            BulkMode::VeryShort if is_bulk => self.short(change, &card),
            _ => None,
        };
        let fields = match json!(card) {
            Value::Object(fields) if short.is_none() => Some(fields),
            _ => None,
        };
        let project = self.repo.project_key.as_deref();
        let meta = json!({"scm": {
            "repo_id": change.repo_id, "source_id": change.source_id, "ts": change.ts,
            "is_merge": change.is_merge, "bulk_reason": change.bulk_reason,
        }});
        StoreRequest {
            payload_md: short,
            card: fields,
            target_space: project.map(|project| format!("team:{project}")),
            meta_json: meta.as_object().cloned().unwrap_or_default(),
            kind: Some(self.kind.as_str().to_owned()),
            evidence,
            is_bulk,
            ..StoreRequest::default()
        }
    }

    /// As much of the message and the files as the policy allows.
    fn fitted(&self, change: &Change, facts: &Facts) -> Card {
        let most = self.policy.max_chars.min(CARD_CHARS_MAX);
        let mut card = None;
        for (paragraphs, paths) in SHAPES {
            let tried = self.card(change, facts, paragraphs, paths);
            let chars = tried.build().text.chars().count() as u64;
            card = Some(tried);
            if chars <= most {
                break;
            }
        }
        card.expect("invariant: there are shapes")
    }

    fn card(&self, change: &Change, facts: &Facts, paragraphs: usize, paths: usize) -> Card {
        let mut details: Vec<String> = facts.paragraphs.iter().take(paragraphs).cloned().collect();
        details.extend(facts.changed(paths));
        details.extend(facts.numbers.clone());
        details.extend(change.bulk_reason.as_deref().map(one_line));
        details.push(facts.recorded.clone());
        let rev = change.rev_or_sha.clone();
        let (svn_rev, git_commit) = match self.repo.provider {
            Provider::Svn => (Some(rev), None),
            Provider::Git | Provider::Gitlab => (None, Some(rev)),
        };
        Card {
            kind: self.kind,
            owner: facts.owner.clone(),
            module: facts.module.clone(),
            summary: facts.summary.clone(),
            details,
            evidence: vec![CardEvidence {
                uri: place::evidence_uri(self.repo, change),
                sha256: facts.sha256.clone(),
                svn_rev,
                git_commit,
                ..CardEvidence::default()
            }],
            // From the repository itself.
            confidence: Confidence::High,
            visibility: Visibility::Team,
            ttl: match change.bulk_reason {
                Some(_) => Ttl::Short,
                None => Ttl::Mid,
            },
        }
    }

    /// The card of a bulk change, if it can be as short as the policy requires.
    fn short(&self, change: &Change, card: &Card) -> Option<String> {
        let most = usize::try_from(self.policy.bulk_max_chars).unwrap_or(usize::MAX);
        let render = |module: &str, summary: &str| {
            let (kind, ttl) = (card.kind.as_str(), card.ttl.as_str());
            let rev = &change.source_id;
            format!("[Kind] {kind}{module}\n[TTL] {ttl}\n[Summary]\n{summary}\n[Evidence]\n{rev}")
        };
        let room = |module: &str| most.saturating_sub(render(module, "").chars().count());
        let named = format!("\n[Module] {}", card.module);
        let module = if room(&named) >= SUMMARY_CHARS_GOOD {
            named.as_str()
        } else {
            ""
        };
        let room = room(module);
        let summary = shortened(&card.summary, room);
        (room >= SUMMARY_CHARS_MIN).then(|| render(module, &summary))
    }
}

/// The stored change as evidence.
fn reference(patch: &PatchState) -> Option<Value> {
    let uri = patch.evidence_uri.as_deref()?;
    Some(json!({
        "uri": uri, "sha256": patch.sha256, "source_id": patch.source_id,
        "source_type": patch.source_type, "kind": "patch",
    }))
}

/// Replaces line ends.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c.is_whitespace());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Replaces headings of the layout and control characters.
fn tame(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line: String = line
            .chars()
            .filter(|c| !c.is_control() || *c == '\t')
            .collect();
        if is_heading(&line) {
            format!("> {line}")
        } else {
            line
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// At most so many characters; the last one marks a cut.
fn shortened(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        None => text.to_owned(),
        Some(_) => text
            .chars()
            .take(most.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}
