//! Memory cards: a memory in a fixed, short layout.
//!
//! A card is built from fields and shortened where it is too long. Details that are a diff or a log
//! are replaced by a pointer with their hash.

mod content;
mod fields;

pub use self::{
    content::{ContentKind, content_kind},
    fields::{CardError, CardEvidence, CardKind, Confidence, Ttl, Visibility},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::payload_sha;

const SUMMARY_CHARS_MAX: usize = 200;
const SUMMARY_CHARS_KEPT: usize = 180;
const DETAIL_CHARS_MAX: usize = 500;
const DETAIL_CHARS_KEPT: usize = 480;
const DETAILS_MAX: usize = 10;
const EVIDENCE_MAX: usize = 10;
const CARD_CHARS_MAX: usize = 4_000;
const CARD_CHARS_KEPT: usize = 3_950;
/// Mark of a cut text; part of the layout, like the headings.
const CUT: &str = "... [内容已截断]";
const CARD_CUT: &str = "\n\n[... 内容已截断 ...]";

/// Line prefixes of the layout.
const HEADINGS: [&str; 9] = [
    "[Kind]",
    "[Owner]",
    "[Module]",
    "[Visibility]",
    "[TTL]",
    "[Confidence]",
    "[Summary]",
    "[Details]",
    "[Evidence]",
];

/// A memory card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Kind of memory.
    pub kind: CardKind,
    /// Owner.
    pub owner: String,
    /// Module.
    pub module: String,
    /// One sentence.
    pub summary: String,
    /// Details, one per point.
    pub details: Vec<String>,
    /// Evidence.
    pub evidence: Vec<CardEvidence>,
    /// How sure it is.
    #[serde(default)]
    pub confidence: Confidence,
    /// Who should see it.
    #[serde(default)]
    pub visibility: Visibility,
    /// How long it will hold.
    #[serde(default)]
    pub ttl: Ttl,
}

/// How a card was shortened; stored in audits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trim {
    /// Whether anything was.
    pub was_trimmed: bool,
    /// What: `diff`, `log`, `summary`, `detail`, `details`, `evidence`, `card`, by commas.
    pub why: Option<String>,
    /// How long it would have been, in characters.
    pub original_len: Option<usize>,
}

/// A card as a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltCard {
    /// The text.
    pub text: String,
    /// What was done to it.
    pub trim: Trim,
    /// Details replaced by a pointer, with their kind: callers may store them as evidence.
    pub intercepted: Vec<(ContentKind, String)>,
}

impl Card {
    /// Parses the fields of a card.
    pub fn read(fields: &Map<String, Value>) -> Result<Self, CardError> {
        let card: Self = serde_json::from_value(Value::Object(fields.clone()))
            .map_err(|error| CardError::new(vec![error.to_string()]))?;
        card.check()?;
        Ok(card)
    }

    /// Validates the card; reports every problem.
    pub fn check(&self) -> Result<(), CardError> {
        let mut problems = Vec::new();
        let lines = [("owner", &self.owner), ("module", &self.module)];
        for (name, line) in lines {
            // A line break could begin a forged heading.
            if line.chars().any(char::is_control) {
                problems.push(format!("{name} must be one line"));
            }
        }
        for (name, text) in lines.into_iter().chain([("summary", &self.summary)]) {
            if text.trim().is_empty() {
                problems.push(format!("{name} must not be empty"));
            }
        }
        let texts = self.details.iter().chain([&self.summary]);
        if texts.flat_map(|text| text.lines()).any(is_heading) {
            problems.push("summary and details must not contain headings of cards".to_owned());
        }
        if self.details.iter().all(|detail| detail.trim().is_empty()) {
            problems.push("details must not be empty".to_owned());
        }
        if self.evidence.is_empty() {
            problems.push("evidence must not be empty".to_owned());
        }
        for (index, evidence) in self.evidence.iter().enumerate() {
            let problems_of = evidence.problems().into_iter();
            problems.extend(problems_of.map(|why| format!("evidence[{index}].{why}")));
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(CardError::new(problems))
        }
    }

    /// The card as a memory, short enough.
    pub fn build(&self) -> BuiltCard {
        let mut reasons: Vec<&str> = Vec::new();
        let mut intercepted = Vec::new();
        let mut card = self.clone();
        for detail in &mut card.details {
            if let Some(kind) = content_kind(detail) {
                let pointer = kind.pointer(&payload_sha(detail));
                intercepted.push((kind, std::mem::replace(detail, pointer)));
                reasons.push(kind.as_str());
            } else if cut(detail, DETAIL_CHARS_MAX, DETAIL_CHARS_KEPT, CUT) {
                reasons.push("detail");
            }
        }
        if cut(
            &mut card.summary,
            SUMMARY_CHARS_MAX,
            SUMMARY_CHARS_KEPT,
            CUT,
        ) {
            reasons.push("summary");
        }
        if card.details.len() > DETAILS_MAX {
            card.details.truncate(DETAILS_MAX);
            reasons.push("details");
        }
        if card.evidence.len() > EVIDENCE_MAX {
            card.evidence.truncate(EVIDENCE_MAX);
            reasons.push("evidence");
        }
        let mut text = card.render();
        if cut(&mut text, CARD_CHARS_MAX, CARD_CHARS_KEPT, CARD_CUT) {
            reasons.push("card");
        }
        let was_trimmed = !reasons.is_empty();
        reasons.sort_unstable();
        reasons.dedup();
        let trim = Trim {
            was_trimmed,
            why: was_trimmed.then(|| reasons.join(",")),
            original_len: was_trimmed.then(|| self.render().chars().count()),
        };
        BuiltCard {
            text,
            trim,
            intercepted,
        }
    }

    /// The layout, of any length.
    pub fn render(&self) -> String {
        let mut lines = vec![
            format!("[Kind] {}", self.kind.as_str()),
            format!("[Owner] {}", self.owner),
            format!("[Module] {}", self.module),
            format!("[Visibility] {}", self.visibility.as_str()),
            format!("[TTL] {}", self.ttl.as_str()),
            format!("[Confidence] {}", self.confidence.as_str()),
            String::new(),
            "[Summary]".to_owned(),
            self.summary.clone(),
            String::new(),
            "[Details]".to_owned(),
        ];
        let details = (1..).zip(&self.details);
        lines.extend(details.map(|(number, detail)| format!("{number}) {detail}")));
        lines.extend([String::new(), "[Evidence]".to_owned()]);
        lines.extend(self.evidence.iter().flat_map(CardEvidence::lines));
        lines.join("\n")
    }

    /// Its evidence in the form of `memory_store`.
    pub fn evidence_values(&self) -> Vec<Value> {
        self.evidence.iter().map(|item| json!(item)).collect()
    }
}

/// Whether a line could be read as a heading: evidence could be forged with it.
pub(crate) fn is_heading(line: &str) -> bool {
    let line = line.trim_start();
    HEADINGS.iter().any(|heading| line.starts_with(heading))
}

/// Cuts a text of more than `most` characters to the first `kept` and a mark.
fn cut(text: &mut String, most: usize, kept: usize, mark: &str) -> bool {
    if text.chars().nth(most).is_none() {
        return false;
    }
    let end = text
        .char_indices()
        .nth(kept)
        .map_or(text.len(), |(at, _)| at);
    text.truncate(end);
    text.push_str(mark);
    true
}

#[cfg(test)]
mod tests;
