//! Which messages a list shows: all of it stands in the address of the page, so that it can be
//! sent to a colleague, and every link of the page keeps it.

use askama::Template;
use consign_kernel::{
    CODE_BYTES_MAX, Cursor, Filter, MessageId, PAGE_ENTRIES_MAX, QueueName, StateKind,
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{audit::time, form::encoded, shell::text};
use crate::{problem::Problem, state::AppState};

/// The fields of an address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct QueryFields {
    queue: String,
    state: String,
    q: String,
    code: String,
    key_prefix: String,
    group: String,
    destination: String,
    since: String,
    until: String,
    before: Option<i64>,
    pub(super) done: Option<String>,
    /// Of the charts.
    pub(super) window: Option<String>,
}

/// A filter of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) queue: Option<QueueName>,
    pub(super) state: Option<StateKind>,
    /// An id, the beginning of a key, a correlation id or a code.
    pub(super) q: Option<String>,
    pub(super) code: Option<String>,
    pub(super) key_prefix: Option<String>,
    pub(super) group: Option<String>,
    /// Where a worker of this process delivers to.
    pub(super) destination: Option<String>,
    /// As typed, and what it means.
    pub(super) since: Option<(String, Timestamp)>,
    pub(super) until: Option<(String, Timestamp)>,
    pub(super) before: Option<Cursor>,
}

impl QueryFields {
    /// What they mean at `now`.
    pub(super) fn read(&self, now: Timestamp) -> Result<Query, Problem> {
        let code = filled(&self.code);
        let is_wrong = |code: &&String| code.len() > CODE_BYTES_MAX || code.contains('\0');
        if let Some(code) = code.as_ref().filter(is_wrong) {
            let why = format!("must be at most {CODE_BYTES_MAX} bytes without U+0000");
            let code = consign_kernel::quoted(code);
            return Err(Problem::out_of_bounds("code", code, &why));
        }
        Ok(Query {
            queue: filled(&self.queue).map(|it| it.parse()).transpose()?,
            state: filled(&self.state).map(|it| it.parse()).transpose()?,
            q: filled(&self.q),
            code,
            key_prefix: filled(&self.key_prefix),
            group: filled(&self.group),
            destination: filled(&self.destination),
            since: moment("since", &self.since, now)?,
            until: moment("until", &self.until, now)?,
            before: self.before.map(MessageId),
        })
    }
}

fn filled(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A time, or how long ago it was: `90m`, `24h`, `7d`.
fn moment(field: &str, text: &str, now: Timestamp) -> Result<Option<(String, Timestamp)>, Problem> {
    let text = text.trim();
    let unit = [("m", 60), ("h", 3_600), ("d", 86_400)]
        .into_iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let ago = unit.and_then(|(number, seconds)| {
        let ago = SignedDuration::from_secs(number.parse::<i32>().ok()?.into());
        now.checked_sub(ago.checked_mul(seconds)?).ok()
    });
    let at = match ago {
        Some(at) => Some(at),
        None => time(field, text)?,
    };
    Ok(at.map(|at| (text.to_owned(), at)))
}

impl Query {
    /// Whether it is about a queue and a state at most, and shows the newest of them, which change
    /// by themselves.
    pub(super) fn is_newest(&self) -> bool {
        let place = Self {
            queue: self.queue.clone(),
            state: self.state,
            ..Self::default()
        };
        *self == place
    }

    /// Whether a queue and a code are all it asks for, as a redrive does.
    pub(super) fn is_redrivable(&self) -> bool {
        let redrive = Self {
            queue: self.queue.clone(),
            code: self.code.clone(),
            before: self.before,
            ..Self::default()
        };
        *self == redrive
    }

    /// The same without a word that may mean several things, and without the destination.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            queue: self.queue.clone(),
            state: self.state,
            code: self.code.clone(),
            key_prefix: self.key_prefix.clone(),
            group: self.group.clone(),
            since: self.since.as_ref().map(|(_, at)| *at),
            until: self.until.as_ref().map(|(_, at)| *at),
            ..Filter::default()
        }
    }

    /// The filters whose matches are what it asks for, together.
    pub(super) fn ways(&self, state: &AppState) -> Vec<Filter> {
        let mut bases = vec![self.filter()];
        if let Some(destination) = &self.destination {
            let queues = destinations(state).into_iter();
            let queues = queues.filter(|(_, it)| it == destination);
            let queues = queues.filter(|(it, _)| self.queue.as_ref().is_none_or(|own| own == it));
            let base = |(queue, _)| Filter {
                queue: Some(queue),
                ..self.filter()
            };
            bases = queues.map(base).collect();
        }
        match &self.q {
            Some(q) => bases.iter().flat_map(|base| meanings(base, q)).collect(),
            None => bases,
        }
    }

    /// The address of the page at `path` with this filter.
    pub(super) fn link(&self, path: &str) -> String {
        let mut link = path.to_owned();
        for (name, value) in self.pairs(path) {
            link.push(if link.contains('?') { '&' } else { '?' });
            link.push_str(&format!("{name}={}", encoded(&value)));
        }
        link
    }

    /// The fields of the address of the page at `path`, which has the queue in it or not.
    fn pairs(&self, path: &str) -> Vec<(&'static str, String)> {
        let queue = self.queue.as_ref().filter(|it| {
            let page = path.strip_prefix("/ui/queues/");
            page != Some(it.as_str())
        });
        let time = |it: &Option<(String, Timestamp)>| it.as_ref().map(|(text, _)| text.clone());
        let pairs = [
            ("queue", queue.map(QueueName::to_string)),
            ("state", self.state.map(|it| it.as_str().to_owned())),
            ("q", self.q.clone()),
            ("code", self.code.clone()),
            ("key_prefix", self.key_prefix.clone()),
            ("group", self.group.clone()),
            ("destination", self.destination.clone()),
            ("since", time(&self.since)),
            ("until", time(&self.until)),
            ("before", self.before.map(|it| it.to_string())),
        ];
        let pairs = pairs.into_iter();
        pairs.filter_map(|(name, it)| Some((name, it?))).collect()
    }

    /// The same without one of its fields.
    fn without(&self, name: &str) -> Self {
        let mut other = Self {
            before: None,
            ..self.clone()
        };
        match name {
            "queue" => other.queue = None,
            "state" => other.state = None,
            "q" => other.q = None,
            "code" => other.code = None,
            "key_prefix" => other.key_prefix = None,
            "group" => other.group = None,
            "destination" => other.destination = None,
            "since" => other.since = None,
            "until" => other.until = None,
            _ => {}
        }
        other
    }
}

/// What a word may be: a key or its beginning, a correlation id, or the code of dead messages.
fn meanings(base: &Filter, q: &str) -> Vec<Filter> {
    let text = || Some(q.to_owned());
    let mut ways = vec![
        Filter {
            key: text(),
            ..base.clone()
        },
        Filter {
            correlation_id: text(),
            ..base.clone()
        },
    ];
    if base.code.is_none() {
        ways.push(Filter {
            code: text(),
            ..base.clone()
        });
    }
    let prefix = base.key_prefix.as_deref().unwrap_or_default();
    if q.starts_with(prefix) {
        ways.push(Filter {
            key_prefix: text(),
            ..base.clone()
        });
    }
    ways
}

/// The queues that a worker of this process delivers from, and where to.
fn destinations(state: &AppState) -> Vec<(QueueName, String)> {
    let queues = state.worker_status().map(|status| status.queues);
    let queues = queues.into_iter().flatten();
    queues.map(|it| (it.queue, it.destination)).collect()
}

/// The form of a filter.
#[derive(Template)]
#[template(path = "filter.html")]
struct FilterForm<'q> {
    path: &'q str,
    /// What is listed, for readers of screens.
    label: &'static str,
    query: &'q Query,
    /// Where it can be chosen.
    queues: Vec<(String, bool)>,
    states: Vec<(&'static str, bool)>,
    destinations: Vec<(String, bool)>,
    /// What is set, and the page without it.
    chips: Vec<(String, String)>,
    /// Whether the rarer fields are shown.
    is_open: bool,
}

/// What a page has a field for besides those that all lists have.
#[derive(Clone, Copy)]
pub(super) struct Choices {
    pub(super) queue: bool,
    pub(super) state: bool,
}

/// The form as HTML.
pub(super) async fn form(
    state: &AppState,
    query: &Query,
    (path, label): (&str, &'static str),
    choices: Choices,
) -> Result<String, Problem> {
    let mut queues = Vec::new();
    if choices.queue {
        for (queue, _) in state.queues(None, PAGE_ENTRIES_MAX).await? {
            let is_chosen = query.queue.as_ref() == Some(&queue.name);
            queues.push((queue.name.to_string(), is_chosen));
        }
    }
    let states = StateKind::ALL.map(|kind| (kind.as_str(), query.state == Some(kind)));
    let mut places: Vec<String> = destinations(state).into_iter().map(|(_, to)| to).collect();
    places.retain(|to| !to.is_empty());
    places.sort();
    places.dedup();
    let is_set = |to: &String| query.destination.as_ref() == Some(to);
    let set = query.pairs(path).into_iter();
    let mut set: Vec<_> = set.filter(|(name, _)| *name != "before").collect();
    if !choices.state {
        set.retain(|(name, _)| *name != "state");
    }
    let chip = |(name, value): &(&'static str, String)| {
        let label = match *name {
            "q" => "search",
            "key_prefix" => "key begins with",
            name => name,
        };
        (format!("{label}: {value}"), query.without(name).link(path))
    };
    let is_rare = |(name, _): &(&str, String)| !matches!(*name, "q" | "state" | "queue");
    text(&FilterForm {
        path,
        label,
        query,
        queues,
        states: if choices.state {
            states.to_vec()
        } else {
            Vec::new()
        },
        destinations: places
            .into_iter()
            .map(|to| (to.clone(), is_set(&to)))
            .collect(),
        chips: set.iter().map(chip).collect(),
        is_open: set.iter().any(is_rare),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> QueryFields {
        let mut fields = QueryFields::default();
        for (name, value) in pairs {
            let field = match *name {
                "queue" => &mut fields.queue,
                "state" => &mut fields.state,
                "q" => &mut fields.q,
                "group" => &mut fields.group,
                "since" => &mut fields.since,
                other => panic!("{other}"),
            };
            *field = (*value).to_owned();
        }
        fields
    }

    #[test]
    fn a_link_has_every_field_of_the_filter() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let set = [
            ("queue", "mail"),
            ("state", "dead"),
            ("q", "a b"),
            ("group", "g&h"),
            ("since", "2h"),
        ];
        let query = fields(&set).read(now).unwrap();
        let (_, since) = query.since.clone().unwrap();
        assert_eq!(now.duration_since(since), SignedDuration::from_hours(2));
        let rest = "state=dead&q=a%20b&group=g%26h&since=2h";
        assert_eq!(
            query.link("/ui/queues/mail"),
            format!("/ui/queues/mail?{rest}")
        );
        let all = format!("/ui/messages?queue=mail&{rest}");
        assert_eq!(query.link("/ui/messages"), all);
        assert_eq!(Query::default().link("/ui/messages"), "/ui/messages");
        let less = query.without("q").without("group").without("since");
        assert!(less.is_newest() && !query.is_newest());
        assert!(fields(&[("since", "soon")]).read(now).is_err());
    }
}
