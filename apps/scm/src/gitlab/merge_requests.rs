//! Reads merge requests.

use serde_json::json;

use super::{
    changed::{ChangedRequests, MergeRequest},
    client::Client,
    reached::{RequestPosition, Stamp},
    time,
};
use crate::{BatchSender, NewMergeRequest, Records, ScmError, SourceBatch, Watermark, derive};

/// Reads changed merge requests; returns the new position.
pub(super) async fn read(
    client: &Client,
    page_size: u64,
    from: &Watermark,
    to: &BatchSender,
) -> Result<RequestPosition, ScmError> {
    let mut reached = RequestPosition::read(from);
    let mut changed = ChangedRequests::new(client, page_size, &reached);
    while let Some(fresh) = changed.next().await? {
        for (stamp, _) in &fresh {
            reached.add(*stamp);
        }
        let Some(place) = reached.to_place().filter(|_| !fresh.is_empty()) else {
            continue;
        };
        let records = fresh.into_iter();
        let records = records.map(|(stamp, request)| record(stamp, request));
        to.send(SourceBatch {
            records: Records::MergeRequests(records.collect()),
            place,
            remaining: None,
            notes: Vec::new(),
        })
        .await?;
    }
    Ok(reached)
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
            // The merge is in progress.
            "locked" => "opened".to_owned(),
            state => derive::text(state.as_bytes()).0,
        },
        url: plain(&request.web_url),
        meta_json: meta,
        created_at: request.created_at.as_deref().and_then(time::parse),
        updated_at: Some(updated_at),
    }
}
