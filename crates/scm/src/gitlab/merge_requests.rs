//! Merge requests, as they stand.

use serde_json::{Value, json};

use super::{
    changed::{Changed, MergeRequest, Stamp},
    client::Client,
    time,
};
use crate::{Found, NewMergeRequest, Outlet, Place, Records, ScmError, Watermark, derive};

/// The place a watermark stands for: which merge request was written last.
pub(super) fn stored(from: &Watermark) -> Option<(jiff::Timestamp, Option<i64>)> {
    let time = from.place.get("last_mr_updated_at")?.as_str()?;
    let iid = from.place.get("last_mr_iid").and_then(Value::as_i64);
    Some((time::parse(time)?, iid))
}

/// A place as watermarks have it.
pub(super) fn place((time, iid): Stamp) -> Place {
    let mut place = Place::new();
    place.insert("last_mr_updated_at".into(), json!(time.to_string()));
    place.insert("last_mr_iid".into(), json!(iid));
    place
}

/// Reads what has changed; answers the last that is known then.
pub(super) async fn read(
    client: &Client,
    page_size: u64,
    from: &Watermark,
    to: &Outlet,
) -> Result<Option<Stamp>, ScmError> {
    let last = stored(from);
    let mut at = last.map(|(time, iid)| (time, iid.unwrap_or_default()));
    let mut changed = Changed::new(client, page_size, last.map(|(time, _)| time));
    while let Some(fresh) = changed.next().await? {
        for (stamp, _) in &fresh {
            let known = at.map(|(time, iid)| (time, Some(iid)));
            if time::advances(known, *stamp) {
                at = Some(*stamp);
            }
        }
        let Some(at) = at.filter(|_| !fresh.is_empty()) else {
            continue;
        };
        let records = fresh
            .into_iter()
            .map(|(stamp, request)| record(stamp, request));
        to.send(Found {
            records: Records::MergeRequests(records.collect()),
            place: place(at),
            remaining: None,
            notes: Vec::new(),
        })
        .await?;
    }
    Ok(at)
}

fn record((updated_at, iid): Stamp, request: MergeRequest) -> NewMergeRequest {
    let plain = |text: &Option<String>| Some(derive::text(text.as_deref()?.as_bytes()).0);
    let author = request.author.as_ref();
    let mut meta = json!({
        "title": plain(&request.title),
        "author": author.and_then(|author| plain(&author.username)),
        "author_name": author.and_then(|author| plain(&author.name)),
        "source_branch": plain(&request.source_branch),
        "target_branch": plain(&request.target_branch),
        "sha": plain(&request.sha),
        "merge_commit_sha": plain(&request.merge_commit_sha),
        "merged_at": request.merged_at.as_deref().map(time::normalized),
        "closed_at": request.closed_at.as_deref().map(time::normalized),
    });
    if let Some(fields) = meta.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    NewMergeRequest {
        iid,
        status: match request.state.as_str() {
            // It is being merged just now.
            "locked" => "opened".to_owned(),
            state => derive::text(state.as_bytes()).0,
        },
        url: plain(&request.web_url),
        meta_json: meta,
        created_at: request.created_at.as_deref().and_then(time::parse),
        updated_at: Some(updated_at),
    }
}
