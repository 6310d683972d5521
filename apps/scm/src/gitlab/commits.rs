//! The commits of a branch.
//!
//! GitLab lists commits newest first, and they are written oldest first. So the list is requested
//! between two commit names: later pushes do not change it. The last page is searched, and the
//! pages are read from there to the first. A watermark within the list has the list and its next
//! page, so that a killed synchronisation resumes. New commits are determined by ancestry, not by
//! date: a commit that is pushed late with an old date is found.

use serde_json::json;

use super::{
    client::Client,
    model::{Branch, Commit},
};
use crate::{BatchSender, Note, Records, ScmError, SourceBatch, SourcePosition, Watermark};

/// A list of commits and the position in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    /// The last stored commit; `None` for everything.
    base: Option<String>,
    /// The newest.
    target: String,
    target_ts: Option<String>,
    page_size: u64,
}

/// Reads the new commits of a branch.
pub(super) async fn read(
    client: &Client,
    branch: &str,
    page_size: u64,
    from: &Watermark,
    to: &BatchSender,
) -> Result<(), ScmError> {
    let walk = Walk { client, to };
    let text = |name: &str| from.place.get(name)?.as_str().map(str::to_owned);
    let mut last = (text("last_commit_sha"), text("last_commit_ts"));
    if let Some((list, page)) = resumed(from, page_size)
        && walk.is_there(&list).await?
    {
        let last_was = last.clone();
        last = (Some(list.target.clone()), list.target_ts.clone());
        // The short last page was read before.
        walk.down(&list, page, true, &last_was, Vec::new()).await?;
    }
    let url = client.at(&["repository", "branches", branch], &[]);
    let tip = client.get::<Branch>(&url).await?.body.commit;
    if !tip.is_named() {
        return Err(client.strange(&url, format!("a commit {:?}", tip.id)));
    }
    if last.0.as_deref() == Some(tip.id.as_str()) {
        return Ok(());
    }
    let (base, notes) = walk.base(last.0.as_deref(), &tip.id).await?;
    let list = List {
        base,
        target_ts: tip.ts_text(),
        target: tip.id,
        page_size,
    };
    walk.begin(&list, &last, notes).await
}

/// The list of a watermark and its next page.
fn resumed(from: &Watermark, page_size: u64) -> Option<(List, u64)> {
    let text = |name: &str| from.place.get(name)?.as_str().map(str::to_owned);
    let number = |name: &str| from.place.get(name)?.as_u64();
    let page = number("page").filter(|page| *page > 0)?;
    let list = List {
        base: text("base"),
        target: text("target")?,
        target_ts: text("target_ts"),
        page_size: number("page_size")?,
    };
    // Another page size gives other pages; commits that are stored already are ignored.
    (list.page_size == page_size).then_some((list, page))
}

type LastPosition = (Option<String>, Option<String>);

struct Walk<'a> {
    client: &'a Client,
    to: &'a BatchSender,
}

impl Walk<'_> {
    /// Whether both ends of the list still exist; a server may remove unreachable commits.
    async fn is_there(&self, list: &List) -> Result<bool, ScmError> {
        for name in [Some(&list.target), list.base.as_ref()]
            .into_iter()
            .flatten()
        {
            if self.commit(name).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn commit(&self, name: &str) -> Result<Option<Commit>, ScmError> {
        let url = self
            .client
            .at(&["repository", "commits", name], &[("stats", "false")]);
        self.client.find(&url).await
    }

    /// Where new commits begin, and whether history was rewritten.
    async fn base(
        &self,
        last: Option<&str>,
        tip: &str,
    ) -> Result<(Option<String>, Vec<Note>), ScmError> {
        let Some(last) = last else {
            return Ok((None, Vec::new()));
        };
        let rewritten = vec![Note {
            event_type: "scm_history_rewritten",
            payload: json!({"old": last, "new": tip}),
        }];
        if self.commit(last).await?.is_none() {
            return Ok((None, rewritten));
        }
        let query = [("refs[]", last), ("refs[]", tip)];
        let url = self.client.at(&["repository", "merge_base"], &query);
        let common = self.client.find::<Commit>(&url).await?;
        let is_ancestor = common.is_some_and(|commit| commit.id == last);
        let notes = if is_ancestor { Vec::new() } else { rewritten };
        Ok((Some(last.to_owned()), notes))
    }

    /// Finds the last page and reads from there.
    async fn begin(
        &self,
        list: &List,
        last: &LastPosition,
        notes: Vec<Note>,
    ) -> Result<(), ScmError> {
        let first = self.page(list, 1, false).await?;
        if (first.len() as u64) < list.page_size {
            // One page holds everything, or nothing if the branch was reset to a stored commit.
            return self.send(list, last, first, 0, notes).await;
        }
        let pages = self.last_page(list).await?;
        self.down(list, pages, false, last, notes).await
    }

    /// The first page is full: doubles until a page is empty, then bisects.
    async fn last_page(&self, list: &List) -> Result<u64, ScmError> {
        let (mut full, mut empty) = (1, None);
        loop {
            let page = match empty {
                None => full * 2,
                Some(empty) if empty - full == 1 => return Ok(full),
                Some(empty) => full + (empty - full) / 2,
            };
            match self.page(list, page, false).await?.len() as u64 {
                0 => empty = Some(page),
                count if count < list.page_size => return Ok(page),
                _ => full = page,
            }
        }
    }

    /// Reads from this page to the first. All are full except the last of the list.
    async fn down(
        &self,
        list: &List,
        pages: u64,
        are_full: bool,
        last: &LastPosition,
        mut notes: Vec<Note>,
    ) -> Result<(), ScmError> {
        for page in (1..=pages).rev() {
            let commits = self.page(list, page, are_full || page < pages).await?;
            let notes = std::mem::take(&mut notes);
            self.send(list, last, commits, page - 1, notes).await?;
        }
        Ok(())
    }

    /// A page of the list. An unexpected short page means that the list changed: it is rejected.
    async fn page(&self, list: &List, page: u64, is_full: bool) -> Result<Vec<Commit>, ScmError> {
        let range = match &list.base {
            Some(base) => format!("{base}..{}", list.target),
            None => list.target.clone(),
        };
        let (size, number) = (list.page_size.to_string(), page.to_string());
        let query = [
            ("ref_name", range.as_str()),
            // Children precede their parents, independent of dates.
            ("order", "topo"),
            ("with_stats", "true"),
            ("per_page", &size),
            ("page", &number),
        ];
        let url = self.client.at(&["repository", "commits"], &query);
        let answer = self.client.get::<Vec<Commit>>(&url).await?;
        let commits = answer.body;
        let count = commits.len() as u64;
        let is_full = is_full || answer.has_next;
        if count > list.page_size || (is_full && count < list.page_size) {
            let what = format!("{count} commits on a page of {}", list.page_size);
            return Err(self.client.strange(&url, what));
        }
        if let Some(odd) = commits.iter().find(|commit| !commit.is_named()) {
            return Err(self.client.strange(&url, format!("a commit {:?}", odd.id)));
        }
        let begins = commits.first().map(|commit| commit.id.as_str());
        if page == 1 && begins.is_some_and(|begins| begins != list.target) {
            let what = format!("the list begins with {begins:?}");
            return Err(self.client.strange(&url, what));
        }
        Ok(commits)
    }

    /// Hands over a page.
    async fn send(
        &self,
        list: &List,
        last: &LastPosition,
        commits: Vec<Commit>,
        pages_left: u64,
        notes: Vec<Note>,
    ) -> Result<(), ScmError> {
        let mut place = SourcePosition::new();
        let mut set = |name: &str, value: &Option<String>| {
            if let Some(value) = value {
                place.insert(name.to_owned(), json!(value));
            }
        };
        match pages_left {
            0 => {
                set("last_commit_sha", &Some(list.target.clone()));
                set("last_commit_ts", &list.target_ts);
            }
            _ => {
                set("last_commit_sha", &last.0);
                set("last_commit_ts", &last.1);
                set("base", &list.base);
                set("target", &Some(list.target.clone()));
                set("target_ts", &list.target_ts);
                place.insert("page".into(), json!(pages_left));
                place.insert("page_size".into(), json!(list.page_size));
            }
        }
        let records = commits.into_iter().rev().map(Commit::into_record).collect();
        self.to
            .send(SourceBatch {
                records: Records::Commits(records),
                place,
                remaining: Some(pages_left * list.page_size),
                notes,
            })
            .await
    }
}
