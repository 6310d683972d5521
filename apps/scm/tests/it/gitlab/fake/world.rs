//! State of the fake server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Answer, Fault, RecordedRequest, TOKEN};

/// A note of a merge request.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) id: i64,
    pub(crate) body: String,
    pub(crate) system: bool,
    pub(crate) author: i64,
}

#[derive(Clone, Debug)]
struct Commit {
    id: String,
    parents: Vec<String>,
    message: String,
    date: Timestamp,
    lines: (u64, u64),
}

#[derive(Clone, Debug)]
struct MergeRequest {
    iid: i64,
    state: String,
    updated_at: Timestamp,
}

type Change = Box<dyn FnOnce(&mut World) + Send>;

/// A project `g/p` and its client's access.
pub(crate) struct World {
    pub(crate) token: String,
    /// After so many requests the token is revoked.
    pub(crate) expires_after: Option<u32>,
    pub(crate) branches: BTreeMap<String, String>,
    /// Commits that the server has thrown away.
    pub(crate) gone: BTreeSet<String>,
    pub(crate) diffs: BTreeMap<String, Vec<Value>>,
    pub(crate) notes: BTreeMap<i64, Vec<Note>>,
    /// Who approves: merge request, user.
    pub(crate) approvals: Vec<(i64, i64)>,
    pub(crate) has_merge_requests: bool,
    /// Whether the client has no access to the project.
    pub(crate) is_hidden: bool,
    /// What happens to the next requests whose target holds a text.
    pub(crate) faults: VecDeque<(&'static str, Fault)>,
    pub(crate) requests: Vec<RecordedRequest>,
    changes: Vec<(&'static str, u32, Change)>,
    commits: Vec<Commit>,
    merge_requests: Vec<MergeRequest>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            token: TOKEN.to_owned(),
            expires_after: None,
            branches: BTreeMap::new(),
            gone: BTreeSet::new(),
            diffs: BTreeMap::new(),
            notes: BTreeMap::new(),
            approvals: Vec::new(),
            has_merge_requests: true,
            is_hidden: false,
            faults: VecDeque::new(),
            requests: Vec::new(),
            changes: Vec::new(),
            commits: Vec::new(),
            merge_requests: Vec::new(),
        }
    }
}

/// Noon of some day, and so many milliseconds.
pub(crate) fn at(milliseconds: i64) -> Timestamp {
    let noon: Timestamp = "2024-01-15T12:00:00Z".parse().unwrap();
    noon + SignedDuration::from_millis(milliseconds)
}

impl World {
    /// A commit without a ref.
    pub(crate) fn commit(
        &mut self,
        parents: &[&str],
        date: Timestamp,
        lines: (u64, u64),
    ) -> String {
        let number = self.commits.len() + 1;
        let id = format!("{number:040x}");
        self.commits.push(Commit {
            id: id.clone(),
            parents: parents.iter().map(|&parent| parent.to_owned()).collect(),
            message: format!("commit {number}\n\nmore"),
            date,
            lines,
        });
        id
    }

    /// So many commits on a branch; answers their names, oldest first.
    pub(crate) fn push(&mut self, branch: &str, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            let parents: Vec<String> = self.branches.get(branch).cloned().into_iter().collect();
            let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
            let date = at(1000 * self.commits.len() as i64);
            let id = self.commit(&parents, date, (3, 1));
            self.branches.insert(branch.to_owned(), id.clone());
            names.push(id);
        }
        names
    }

    /// A merge request is made or changes.
    pub(crate) fn touch(&mut self, iid: i64, state: &str, updated_at: Timestamp) {
        self.merge_requests.retain(|request| request.iid != iid);
        self.merge_requests.push(MergeRequest {
            iid,
            state: state.to_owned(),
            updated_at,
        });
    }

    /// A merge request is deleted.
    pub(crate) fn delete(&mut self, iid: i64) {
        self.merge_requests.retain(|request| request.iid != iid);
    }

    /// Does something after the n-th request whose target holds a text was answered.
    pub(crate) fn after(
        &mut self,
        text: &'static str,
        nth: u32,
        change: impl FnOnce(&mut World) + Send + 'static,
    ) {
        self.changes.push((text, nth, Box::new(change)));
    }

    pub(super) fn answer(&mut self, requests: &RecordedRequest) -> (Answer, Option<Fault>) {
        self.requests.push(requests.clone());
        let fault = self
            .faults
            .iter()
            .position(|(text, _)| requests.target.contains(text));
        let fault = fault
            .and_then(|at| self.faults.remove(at))
            .map(|(_, fault)| fault);
        let answer = match &fault {
            Some(Fault::Status(status, headers)) => Answer {
                headers: headers.clone(),
                ..error(*status, "scripted")
            },
            Some(Fault::Html) => Answer {
                body: "<!DOCTYPE html><html>Please sign in</html>".into(),
                ..ok(json!(null))
            },
            _ => self.message(requests),
        };
        let is_due = |(text, nth, _): &mut (&str, u32, Change)| {
            if requests.target.contains(*text) {
                *nth -= 1;
            }
            *nth == 0
        };
        let due: Vec<_> = self.changes.extract_if(.., is_due).collect();
        for (_, _, change) in due {
            change(self);
        }
        (answer, fault)
    }

    fn message(&mut self, requests: &RecordedRequest) -> Answer {
        match &mut self.expires_after {
            Some(0) => return error(401, "401 Unauthorized"),
            Some(left) => *left -= 1,
            None => {}
        }
        if requests.token.as_deref() != Some(self.token.as_str()) {
            return error(401, "401 Unauthorized");
        }
        let (path, query) = requests
            .target
            .split_once('?')
            .unwrap_or((&requests.target, ""));
        let query: Vec<(String, String)> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect();
        let rest = path.strip_prefix("/api/v4/projects/g%2Fp");
        let Some(rest) = rest.filter(|_| !self.is_hidden) else {
            return error(404, "404 Project Not Found");
        };
        let parts: Vec<String> = rest.split('/').skip(1).map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts[..] {
            [] => ok(json!({
                "id": 7, "default_branch": self.branches.contains_key("main").then_some("main"),
                "empty_repo": self.commits.is_empty(),
                "merge_requests_enabled": self.has_merge_requests,
            })),
            ["repository", "branches", name] => match self.branches.get(name) {
                Some(id) => ok(json!({"name": name, "commit": self.shown(id, false)})),
                None => error(404, "404 Branch Not Found"),
            },
            ["repository", "commits"] => self.list(&query),
            ["repository", "commits", id] => {
                if self.is_there(id) {
                    ok(self.shown(id, one(&query, "stats") != Some("false")))
                } else {
                    error(404, "404 Commit Not Found")
                }
            }
            ["repository", "commits", id, "diff"] => {
                let files = self.diffs.get(id).cloned().unwrap_or_default();
                page(files, &query, true)
            }
            ["repository", "merge_base"] => self.merge_base(&query),
            ["merge_requests"] if self.has_merge_requests => self.changed(&query),
            ["merge_requests", iid] if self.has_merge_requests => match self.request(iid) {
                Some(request) => ok(json!({"iid": request.iid, "state": request.state})),
                None => error(404, "404 Not found"),
            },
            ["merge_requests", iid, "notes"] if self.request(iid).is_none() => {
                error(404, "404 Not found")
            }
            ["merge_requests", iid, "notes"] => self.noted(iid.parse().unwrap(), &query),
            ["merge_requests", iid, "approvals"] => {
                let iid: i64 = iid.parse().unwrap();
                let users = self.approvals.iter().filter(|(of, _)| *of == iid);
                let users = users
                    .map(|(_, user)| json!({"user": {"id": user, "username": format!("u{user}")}}));
                ok(json!({"iid": iid, "approved_by": users.collect::<Vec<_>>()}))
            }
            _ => error(403, "403 Forbidden"),
        }
    }

    fn request(&self, iid: &str) -> Option<&MergeRequest> {
        let iid: i64 = iid.parse().unwrap();
        let mut requests = self.merge_requests.iter();
        requests.find(|request| request.iid == iid)
    }

    fn is_there(&self, id: &str) -> bool {
        !self.gone.contains(id) && self.commits.iter().any(|commit| commit.id == id)
    }

    fn shown(&self, id: &str, has_stats: bool) -> Value {
        let commit = self.commits.iter().find(|commit| commit.id == id).unwrap();
        let (additions, deletions) = commit.lines;
        let mut shown = json!({
            "id": commit.id, "short_id": &commit.id[..8], "parent_ids": commit.parents,
            "title": commit.message.lines().next(), "message": commit.message,
            "author_name": "Ann", "author_email": "ann@x", "authored_date": commit.date.to_string(),
            "committer_name": "Cem", "committer_email": "cem@x",
            "committed_date": commit.date.to_string(), "created_at": commit.date.to_string(),
            "web_url": format!("http://h/g/p/-/commit/{}", commit.id),
        });
        if has_stats {
            let total = additions + deletions;
            shown["stats"] =
                json!({"additions": additions, "deletions": deletions, "total": total});
        }
        shown
    }

    fn reachable(&self, from: &str) -> BTreeSet<String> {
        let (mut found, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(id) = open.pop() {
            if let Some(commit) = self.commits.iter().find(|commit| commit.id == id)
                && found.insert(id)
            {
                open.extend(commit.parents.iter().cloned());
            }
        }
        found
    }

    /// Newest first, children before parents; no totals, as for commits.
    fn list(&self, query: &[(String, String)]) -> Answer {
        let range = one(query, "ref_name").unwrap();
        let (base, target) = match range.split_once("..") {
            Some((base, target)) => (Some(base), target),
            None => (None, range),
        };
        // What the real server does with a revision it cannot find.
        if [base, Some(target)]
            .into_iter()
            .flatten()
            .any(|id| !self.is_there(id))
        {
            return page(Vec::new(), query, false);
        }
        let known = base.map(|base| self.reachable(base)).unwrap_or_default();
        let wanted = &self.reachable(target) - &known;
        let has_stats = one(query, "with_stats") == Some("true");
        let ids = self.commits.iter().rev().map(|commit| &commit.id);
        let ids = ids.filter(|id| wanted.contains(*id));
        page(
            ids.map(|id| self.shown(id, has_stats)).collect(),
            query,
            false,
        )
    }

    fn merge_base(&self, query: &[(String, String)]) -> Answer {
        let refs: Vec<&str> = query
            .iter()
            .filter(|(name, _)| name == "refs[]")
            .map(|(_, id)| id.as_str())
            .collect();
        let common = &self.reachable(refs[0]) & &self.reachable(refs[1]);
        let newest = self
            .commits
            .iter()
            .rev()
            .find(|commit| common.contains(&commit.id));
        match newest {
            Some(commit) => ok(self.shown(&commit.id, false)),
            None => error(404, "404 Merge Base Not Found"),
        }
    }

    /// From a time on, that time included; of equals the youngest first.
    fn changed(&self, query: &[(String, String)]) -> Answer {
        let since: Option<Timestamp> =
            one(query, "updated_after").map(|time| time.parse().unwrap());
        let mut found = self.merge_requests.clone();
        found.retain(|request| since.is_none_or(|since| request.updated_at >= since));
        found.sort_by_key(|request| (request.updated_at, -request.iid));
        let shown = found.iter().map(|request| {
            json!({
                "id": 1000 + request.iid, "iid": request.iid, "state": request.state,
                "title": format!("request {}", request.iid), "web_url": format!("http://h/g/p/-/merge_requests/{}", request.iid),
                "author": {"id": 1, "username": "u1", "name": "One"}, "source_branch": "topic",
                "target_branch": "main", "created_at": at(0).to_string(),
                // The API shows milliseconds of the database's microseconds.
                "updated_at": request.updated_at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            })
        });
        page(shown.collect(), query, true)
    }

    fn noted(&self, iid: i64, query: &[(String, String)]) -> Answer {
        let notes = self.notes.get(&iid).cloned().unwrap_or_default();
        let shown = notes.iter().map(|note| {
            json!({
                "id": note.id, "body": note.body, "system": note.system,
                "author": {"id": note.author, "username": format!("u{}", note.author)},
                "created_at": at(note.id).to_string(), "resolvable": false, "noteable_iid": iid,
            })
        });
        page(shown.collect(), query, true)
    }
}

fn page(list: Vec<Value>, query: &[(String, String)], has_total: bool) -> Answer {
    let number =
        |name: &str, unsaid: usize| one(query, name).map_or(unsaid, |it| it.parse().unwrap());
    let (size, page) = (number("per_page", 20).min(100), number("page", 1).max(1));
    let total = list.len();
    let shown: Vec<Value> = list
        .into_iter()
        .skip((page - 1) * size)
        .take(size)
        .collect();
    let has_next = if has_total {
        page * size < total
    } else {
        // A full page of commits does not show whether it is the last.
        shown.len() == size
    };
    let next = if has_next {
        (page + 1).to_string()
    } else {
        String::new()
    };
    let mut answer = ok(json!(shown));
    answer.headers.push(("X-Page", page.to_string()));
    answer.headers.push(("X-Per-Page", size.to_string()));
    answer.headers.push(("X-Next-Page", next));
    if has_total {
        answer.headers.push(("X-Total", total.to_string()));
    }
    answer
}

fn ok(body: Value) -> Answer {
    Answer {
        status: 200,
        headers: vec![("Content-Type", "application/json".into())],
        body: body.to_string(),
    }
}

fn error(status: u16, message: &str) -> Answer {
    Answer {
        status,
        ..ok(json!({"message": message}))
    }
}

fn one<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = query.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'%' => {
                let hex = std::str::from_utf8(&after[..2]).unwrap();
                bytes.push(u8::from_str_radix(hex, 16).unwrap());
                rest = &after[2..];
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
