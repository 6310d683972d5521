//! Merge requests in the order of their last change.
//!
//! A merge request that changes between two pages moves to the end, and those behind it move up by
//! one: paging by number would skip one. So the next page is requested by the time of the last
//! entry. Only where a whole page has the same time, paging is by number, and repeated until it
//! brings nothing new.

use std::collections::HashSet;

use jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;

use super::{
    client::Client,
    reached::{RequestPosition, Stamp},
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

/// A user.
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
pub(super) struct ChangedRequests<'a> {
    client: &'a Client,
    page_size: u64,
    since: Option<Timestamp>,
    page: u64,
    /// Those seen at or after `since`, or stored before.
    seen: HashSet<Stamp>,
    /// Whether the pages by number brought something new.
    has_news: bool,
    is_done: bool,
}

impl<'a> ChangedRequests<'a> {
    /// Those that changed since, except stored ones.
    pub(super) fn new(client: &'a Client, page_size: u64, reached: &RequestPosition) -> Self {
        Self {
            client,
            page_size,
            since: reached.since(),
            page: 1,
            seen: reached.recent().collect(),
            has_news: false,
            is_done: false,
        }
    }

    /// The next ones in order; `None` at the end. May be empty with more to come.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<(Stamp, MergeRequest)>>, ScmError> {
        if self.is_done {
            return Ok(None);
        }
        let url = self.url();
        let answer = self.client.get::<Vec<MergeRequest>>(&url).await?;
        let is_full = answer.has_next || answer.body.len() as u64 >= self.page_size;
        let stamped = self.stamped(&url, answer.body)?;
        let newest = stamped.last().map(|((time, _), _)| *time);
        let is_new = |(stamp, _): &(Stamp, MergeRequest)| self.seen.insert(*stamp);
        let mut fresh: Vec<_> = stamped.into_iter().filter(is_new).collect();
        fresh.sort_by_key(|(stamp, _)| *stamp);
        self.turn(is_full, newest, !fresh.is_empty());
        Ok(Some(fresh))
    }

    /// Determines the next page.
    fn turn(&mut self, is_full: bool, newest: Option<Timestamp>, is_fresh: bool) {
        self.has_news |= is_fresh;
        let is_one_instant = is_full && newest.is_some() && newest <= self.since;
        if is_one_instant {
            self.page += 1;
            return;
        }
        // Pages by number may have shifted in between.
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
                self.seen.retain(|(time, _)| *time >= newest);
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

    /// With their times, which must be in the requested range.
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
                let what = format!("merge request {iid} of {at} is out of order");
                return Err(self.client.strange(url, what));
            }
            before = Some(time);
            stamped.push(((time, iid), request));
        }
        Ok(stamped)
    }
}
