//! Merge requests in the order in which they changed.
//!
//! A merge request that changes while pages are turned moves to the end, and everything behind it moves
//! up by one: whoever turns pages by number misses one. So the next page is asked for by the time the
//! last one ended with. Only where a whole page changed in the same instant, pages are turned by number;
//! and turned again until nothing new comes of it.

use std::collections::HashSet;

use jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;

use super::{
    client::Client,
    reached::{Reached, Stamp},
    time,
};
use crate::ScmError;

/// A merge request, as a list has it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MergeRequest {
    pub(super) iid: i64,
    pub(super) state: String,
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) web_url: Option<String>,
    #[serde(default)]
    pub(super) author: Option<Person>,
    #[serde(default)]
    pub(super) source_branch: Option<String>,
    #[serde(default)]
    pub(super) target_branch: Option<String>,
    #[serde(default)]
    pub(super) sha: Option<String>,
    #[serde(default)]
    pub(super) merge_commit_sha: Option<String>,
    #[serde(default)]
    pub(super) created_at: Option<String>,
    #[serde(default)]
    pub(super) merged_at: Option<String>,
    #[serde(default)]
    pub(super) closed_at: Option<String>,
    updated_at: String,
}

/// Somebody.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Person {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) username: Option<String>,
    #[serde(default)]
    pub(super) name: Option<String>,
}

/// Merge requests from a time on.
#[derive(Debug)]
pub(super) struct Changed<'a> {
    client: &'a Client,
    page_size: u64,
    since: Option<Timestamp>,
    page: u64,
    /// What was told at or after `since`, or known before.
    told: HashSet<Stamp>,
    /// Whether the pages that are being turned by number brought something.
    has_news: bool,
    is_done: bool,
}

impl<'a> Changed<'a> {
    /// Those that changed since, apart from what is known.
    pub(super) fn new(client: &'a Client, page_size: u64, reached: &Reached) -> Self {
        Self {
            client,
            page_size,
            since: reached.since(),
            page: 1,
            told: reached.recent().collect(),
            has_news: false,
            is_done: false,
        }
    }

    /// Some more, in order; nothing at the end. May be none, with more to come.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<(Stamp, MergeRequest)>>, ScmError> {
        if self.is_done {
            return Ok(None);
        }
        let url = self.url();
        let answer = self.client.get::<Vec<MergeRequest>>(&url).await?;
        let is_full = answer.has_next || answer.body.len() as u64 >= self.page_size;
        let stamped = self.stamped(&url, answer.body)?;
        let newest = stamped.last().map(|((time, _), _)| *time);
        let is_new = |(stamp, _): &(Stamp, MergeRequest)| self.told.insert(*stamp);
        let mut fresh: Vec<_> = stamped.into_iter().filter(is_new).collect();
        fresh.sort_by_key(|(stamp, _)| *stamp);
        self.turn(is_full, newest, !fresh.is_empty());
        Ok(Some(fresh))
    }

    /// Where to go on.
    fn turn(&mut self, is_full: bool, newest: Option<Timestamp>, is_fresh: bool) {
        self.has_news |= is_fresh;
        let is_one_instant = is_full && newest.is_some() && newest <= self.since;
        if is_one_instant {
            self.page += 1;
            return;
        }
        // What was turned by number may have been shifted meanwhile.
        let is_unsure = self.page > 1 && self.has_news;
        self.page = 1;
        self.has_news = false;
        if is_unsure {
            return;
        }
        match newest.filter(|_| is_full) {
            None => self.is_done = true,
            Some(newest) => {
                self.since = Some(newest);
                self.told.retain(|(time, _)| *time >= newest);
            }
        }
    }

    fn url(&self) -> Url {
        let (size, page) = (self.page_size.to_string(), self.page.to_string());
        let since = self.since.map(|since| since.to_string());
        let mut query = vec![
            ("scope", "all"),
            ("state", "all"),
            ("order_by", "updated_at"),
            ("sort", "asc"),
            ("per_page", &size),
            ("page", &page),
        ];
        query.extend(since.as_deref().map(|since| ("updated_after", since)));
        self.client.at(&["merge_requests"], &query)
    }

    /// With their times, which must be what was asked for.
    fn stamped(
        &self,
        url: &Url,
        list: Vec<MergeRequest>,
    ) -> Result<Vec<(Stamp, MergeRequest)>, ScmError> {
        let mut before = self.since;
        let mut stamped = Vec::with_capacity(list.len());
        for request in list {
            let (iid, at) = (request.iid, &request.updated_at);
            let time = time::parse(at).ok_or_else(|| {
                self.client
                    .strange(url, format!("merge request {iid} changed at {at:?}"))
            })?;
            if before.is_some_and(|before| time < before) {
                let what = format!("merge request {iid} of {at} is not in its order");
                return Err(self.client.strange(url, what));
            }
            before = Some(time);
            stamped.push(((time, iid), request));
        }
        Ok(stamped)
    }
}
