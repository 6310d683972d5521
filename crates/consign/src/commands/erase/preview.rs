//! The preview of an erasure.

use std::{collections::BTreeSet, path::Path};

use consign_kernel::{ErasureTarget, Filter, MessageId, PAGE_ENTRIES_MAX, Store};
use serde_json::json;

use super::{archived, open};
use crate::{
    failure::{Exit, Failure},
    output::{Output, Table, count, or_dash},
};

/// Shows what would be erased; changes nothing.
pub(super) async fn preview(
    out: Output,
    store: &dyn Store,
    target: &ErasureTarget,
    folder: Option<&Path>,
) -> Result<Exit, Failure> {
    let mut table = Table::new([">id", "queue", "state", "key", "erased"]);
    let mut ids: BTreeSet<MessageId> = in_database(store, target).await?.into_iter().collect();
    ids.extend(archived(open(folder)?.as_ref(), target)?);
    let mut found = Vec::new();
    for id in ids {
        let explanation = store.explain(id).await?;
        let message = explanation.as_ref().map(|it| &it.message);
        let queue = message.map(|message| message.queue.to_string());
        let key = message.and_then(|message| message.key.clone());
        let state = explanation.as_ref().map(|it| it.state.kind().as_str());
        let erased = explanation.as_ref().is_some_and(|it| it.erased.is_some());
        table.row([
            id.to_string(),
            or_dash(queue.as_deref()),
            state.unwrap_or("not in the database").to_owned(),
            or_dash(key.as_deref()),
            erased.to_string(),
        ]);
        found.push(json!({"id": id, "queue": queue, "state": state, "key": key, "erased": erased}));
    }
    if out.is_json() {
        out.json(&json!({"preview": true, "messages": found}))?;
        return Ok(Exit::Fine);
    }
    if found.is_empty() {
        out.note("no messages match")?;
        return Ok(Exit::Fine);
    }
    out.table(&table)?;
    out.line("")?;
    out.line(format_args!(
        "Nothing was changed. To erase the content of {} for ever, run it again with --yes.",
        count(found.len() as u64, "message")
    ))?;
    Ok(Exit::Fine)
}

/// The messages of a target in the database, for the preview.
async fn in_database(store: &dyn Store, target: &ErasureTarget) -> Result<Vec<MessageId>, Failure> {
    let filter = match target {
        ErasureTarget::Ids(ids) => return Ok(ids.clone()),
        ErasureTarget::Key { queue, key } => Filter {
            queue: Some(queue.clone()),
            key: Some(key.clone()),
            ..Filter::default()
        },
        ErasureTarget::Correlation { id, .. } => Filter {
            correlation_id: Some(id.clone()),
            ..Filter::default()
        },
    };
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let page = store.list(&filter, before, PAGE_ENTRIES_MAX).await?;
        ids.extend(page.items.iter().map(|message| message.id));
        before = page.next;
        if before.is_none() {
            return Ok(ids);
        }
    }
}
