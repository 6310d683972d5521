//! Reviews of merge requests: notes, including system notes, and approvals.
//!
//! Every event updates the merge request's time of change. So all notes of changed merge requests
//! are read, because notes cannot be requested from a time on. Those that are stored already are
//! ignored.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

use super::{
    changed::{ChangedRequests, Person},
    client::Client,
    model::Project,
    reached::{RequestPosition, Stamp},
    time,
};
use crate::{BatchSender, NewReview, Records, ScmError, SourceBatch, Watermark, derive};

/// GitLab's maximum.
const NOTES_PAGE: usize = 100;
/// Maximum reads of a list that changes between its pages.
const READS_MAX: u32 = 3;
/// Longer comments are cut.
const BODY_CHARS_MAX: usize = 16 << 10;

#[derive(Debug, Deserialize)]
struct Note {
    id: i64,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    author: Option<Person>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    system: bool,
    #[serde(default)]
    resolvable: bool,
    #[serde(default)]
    resolved: Option<bool>,
    #[serde(default)]
    position: Option<Position>,
}

#[derive(Debug, Deserialize)]
struct Position {
    #[serde(default)]
    new_path: Option<String>,
    #[serde(default)]
    old_path: Option<String>,
    #[serde(default)]
    new_line: Option<i64>,
    #[serde(default)]
    old_line: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
struct Approvals {
    #[serde(default)]
    approved_by: Vec<Approval>,
}

#[derive(Debug, Deserialize)]
struct Approval {
    user: Person,
    #[serde(default)]
    approved_at: Option<String>,
}

/// Reads new reviews of stored merge requests; newer ones may have been opened in between.
pub(super) async fn read(
    client: &Client,
    (page_size, batch_max): (u64, usize),
    from: &Watermark,
    known: Option<&RequestPosition>,
    to: &BatchSender,
) -> Result<(), ScmError> {
    let reached = RequestPosition::read(from);
    let last_event = from.place.get("last_event_ts").and_then(Value::as_str);
    let mut changed = ChangedRequests::new(client, page_size, &reached);
    let mut sending = ReviewStream {
        to,
        batch_max,
        reached,
        last_event: last_event.and_then(time::parse),
        reviews: Vec::new(),
        has_moved: false,
    };
    while let Some(fresh) = changed.next().await? {
        for (stamp, _) in fresh {
            if known.is_some_and(|known| !known.covers(stamp)) {
                // The next run reads it: it starts a little before its position.
                continue;
            }
            let reviews = of_merge_request(client, stamp.1).await?;
            sending.add(stamp, reviews).await?;
        }
        sending.flush().await?;
    }
    Ok(())
}

/// Reviews being sent.
struct ReviewStream<'a> {
    to: &'a BatchSender,
    batch_max: usize,
    reached: RequestPosition,
    last_event: Option<Timestamp>,
    reviews: Vec<NewReview>,
    has_moved: bool,
}

impl ReviewStream<'_> {
    /// Adds the reviews of a merge request. They stay in one batch, because there is no position
    /// between them.
    async fn add(&mut self, stamp: Stamp, reviews: Vec<NewReview>) -> Result<(), ScmError> {
        if self.reviews.len() + reviews.len() > self.batch_max && !self.reviews.is_empty() {
            self.flush().await?;
        }
        let last = reviews.iter().filter_map(|review| review.ts).max();
        self.last_event = self.last_event.max(last);
        self.reviews.extend(reviews);
        self.reached.add(stamp);
        self.has_moved = true;
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), ScmError> {
        let Some(mut place) = self.reached.to_place().filter(|_| self.has_moved) else {
            return Ok(());
        };
        if let Some(last_event) = self.last_event {
            place.insert("last_event_ts".into(), json!(last_event.to_string()));
        }
        self.has_moved = false;
        let reviews = std::mem::take(&mut self.reviews);
        self.to
            .send(SourceBatch {
                records: Records::Reviews(reviews),
                place,
                remaining: None,
                notes: Vec::new(),
            })
            .await
    }
}

async fn of_merge_request(client: &Client, iid: i64) -> Result<Vec<NewReview>, ScmError> {
    let number = iid.to_string();
    let notes = notes(client, &number).await?;
    let url = client.at(&["merge_requests", &number, "approvals"], &[]);
    let approvals: Approvals = client.find(&url).await?.unwrap_or_default();
    // Servers write system notes for approvals; approvals without a note are taken from the list.
    let noted: HashSet<i64> = notes
        .iter()
        .filter(|note| event_type(note) == "approve")
        .filter_map(|note| Some(note.author.as_ref()?.id))
        .collect();
    let approvals = approvals.approved_by.into_iter();
    let approvals = approvals.filter(|approval| !noted.contains(&approval.user.id));
    let approvals = approvals.map(|approval| NewReview {
        iid,
        source_event_id: format!("approval:{}", approval.user.id),
        event_type: "approve".into(),
        payload_json: json!({"author": plain(&approval.user.username)}),
        ts: approval.approved_at.as_deref().and_then(time::parse),
    });
    let notes = notes.into_iter().map(|note| of_note(iid, note));
    Ok(notes.chain(approvals).collect())
}

/// All notes of a merge request, oldest first. A note deleted between two pages shifts the others,
/// so that one is missed: then they are read again.
async fn notes(client: &Client, iid: &str) -> Result<Vec<Note>, ScmError> {
    let mut found = BTreeMap::new();
    for _ in 0..READS_MAX {
        let (mut page, mut totals) = (1, HashSet::new());
        loop {
            let (size, number) = (NOTES_PAGE.to_string(), page.to_string());
            let query = [
                ("order_by", "created_at"),
                ("sort", "asc"),
                ("per_page", size.as_str()),
                ("page", &number),
            ];
            let url = client.at(&["merge_requests", iid, "notes"], &query);
            let answer = match client.get::<Vec<Note>>(&url).await {
                Err(error @ ScmError::NotFound { .. }) => {
                    return if is_gone(client, iid).await? {
                        Ok(Vec::new())
                    } else {
                        Err(error)
                    };
                }
                answer => answer?,
            };
            let is_last = !answer.has_next && answer.body.len() < NOTES_PAGE;
            totals.insert(answer.total);
            found.extend(answer.body.into_iter().map(|note| (note.id, note)));
            if is_last {
                break;
            }
            page += 1;
        }
        if totals.len() == 1 {
            break;
        }
    }
    Ok(found.into_values().collect())
}

/// Whether a merge request without notes was deleted. An inaccessible project also returns no
/// notes; those are read later.
async fn is_gone(client: &Client, iid: &str) -> Result<bool, ScmError> {
    let request = client.at(&["merge_requests", iid], &[]);
    if client.find::<IgnoredAny>(&request).await?.is_some() {
        return Ok(false);
    }
    let project: Project = client.get(&client.at(&[], &[])).await?.body;
    Ok(project.has_merge_requests())
}

fn of_note(iid: i64, note: Note) -> NewReview {
    let body: Option<String> =
        plain(&note.body).map(|body| body.chars().take(BODY_CHARS_MAX).collect());
    let position = note.position.as_ref();
    let path =
        position.and_then(|position| plain(&position.new_path).or(plain(&position.old_path)));
    let line = position.and_then(|position| position.new_line.or(position.old_line));
    let mut payload = json!({
        "author": note.author.as_ref().and_then(|author| plain(&author.username)),
        "body": body,
        "path": path,
        "line": line,
        "resolved": note.resolved.filter(|_| note.resolvable),
    });
    if let Some(fields) = payload.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    NewReview {
        iid,
        source_event_id: format!("note:{}", note.id),
        event_type: event_type(&note).to_owned(),
        payload_json: payload,
        ts: note.created_at.as_deref().and_then(time::parse),
    }
}

/// The event of a note. System notes are in English on every server.
fn event_type(note: &Note) -> &'static str {
    if !note.system {
        return "comment";
    }
    let body = note.body.as_deref().unwrap_or_default().trim();
    let beginnings = [
        ("approved this merge request", "approve"),
        ("unapproved this merge request", "unapprove"),
        ("requested changes", "request_changes"),
        ("requested review", "request_review"),
        ("removed review request", "unrequest_review"),
        ("merged", "merge"),
        ("closed", "close"),
        ("reopened", "reopen"),
    ];
    if body.starts_with("added ")
        && body
            .split(' ')
            .nth(2)
            .is_some_and(|it| it.starts_with("commit"))
    {
        return "push";
    }
    let found = beginnings
        .into_iter()
        .find(|(begins, _)| body.starts_with(begins));
    found.map_or("system", |(_, event_type)| event_type)
}

fn plain(text: &Option<String>) -> Option<String> {
    Some(derive::text(text.as_deref()?.as_bytes()).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(fields: Value) -> Note {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn notes_map_to_events() {
        let table = [
            ("approved this merge request", true, "approve"),
            ("unapproved this merge request", true, "unapprove"),
            ("requested review from @a and @b", true, "request_review"),
            ("requested changes", true, "request_changes"),
            ("added 1 commit\n\n<ul><li>x</li></ul>", true, "push"),
            ("added 12 commits", true, "push"),
            ("added ~bug label", true, "system"),
            ("merged", true, "merge"),
            ("assigned to @a", true, "system"),
            ("approved this merge request", false, "comment"),
        ];
        for (body, system, expected) in table {
            let note = note(json!({"id": 1, "body": body, "system": system}));
            assert_eq!(event_type(&note), expected, "{body}");
        }
    }

    #[test]
    fn a_note_is_read() {
        let review = of_note(
            7,
            note(json!({
                "id": 302, "body": "no\0w", "author": {"id": 1, "username": "pipin"}, "system": false,
                "created_at": "2013-10-02T09:22:45Z", "resolvable": true, "resolved": false,
                "position": {"new_path": "a.rs", "new_line": 4, "position_type": "text"},
            })),
        );
        assert_eq!(
            (review.iid, review.source_event_id.as_str()),
            (7, "note:302")
        );
        let expected = json!({
            "author": "pipin", "body": "no\u{fffd}w", "path": "a.rs", "line": 4, "resolved": false
        });
        assert_eq!(review.payload_json, expected);
        assert_eq!(review.ts.unwrap().to_string(), "2013-10-02T09:22:45Z");
        let bare = of_note(7, note(json!({"id": 1})));
        assert_eq!((bare.payload_json, bare.ts), (json!({}), None));
    }
}
