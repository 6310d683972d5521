//! Pages that keep themselves up to date: what has changed is sent as server-sent events.
//!
//! All who look at the same thing share one look at the database every two seconds, which ends when
//! nobody looks any more.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, header},
    response::Response,
};
use consign_kernel::{Filter, LaneName, MessageId, RedriveId, StateKind};
use futures_util::stream;
use serde::Deserialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, timeout},
};

use super::{dead, lane, leases, list::Query, message, overview, rates::Window};
use crate::{
    extract::Params,
    problem::{Problem, codes},
    state::AppState,
};

const PAUSE: Duration = Duration::from_secs(2);
/// Sent when there is nothing to say, so that a broken connection is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// A stream ends after this long: the browser comes again, and shows its session again.
const STREAM_MAX: Duration = Duration::from_secs(10 * 60);
const VIEWERS_MAX: usize = 256;

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Overview(Window),
    Lane(LaneName, Option<StateKind>),
    Message(MessageId),
    Redrive(RedriveId),
    Leases,
    Dead,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overview(window) => write!(f, "overview:{}", window.as_str()),
            Self::Lane(lane, None) => write!(f, "lane:{lane}"),
            Self::Lane(lane, Some(state)) => write!(f, "lane:{lane}:{state}"),
            Self::Message(id) => write!(f, "message:{id}"),
            Self::Redrive(id) => write!(f, "redrive:{id}"),
            Self::Leases => f.write_str("leases"),
            Self::Dead => f.write_str("dead"),
        }
    }
}

impl Topic {
    fn read(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        Some(match kind {
            "overview" => Self::Overview(Window::read(Some(rest))),
            "leases" => Self::Leases,
            "dead" => Self::Dead,
            "message" => Self::Message(MessageId(rest.parse().ok()?)),
            "redrive" => Self::Redrive(RedriveId(rest.parse().ok()?)),
            "lane" => {
                let (lane, state) = rest.split_once(':').unwrap_or((rest, ""));
                let state = (!state.is_empty()).then_some(state);
                let state = state.map(str::parse).transpose().ok()?;
                Self::Lane(lane.parse().ok()?, state)
            }
            _ => return None,
        })
    }

    async fn rendered(&self, state: &AppState) -> Result<String, Problem> {
        match self {
            Self::Overview(window) => overview::live(state, *window).await,
            Self::Lane(name, kind) => {
                let query = Query {
                    lane: Some(name.clone()),
                    state: *kind,
                    q: None,
                    before: None,
                };
                lane::live(state, name, &query).await
            }
            Self::Message(id) => message::live(state, *id).await,
            Self::Redrive(id) => dead::redrive_live(state, *id).await,
            Self::Leases => leases::live(state).await,
            Self::Dead => dead::live(state, &Filter::default(), None).await,
        }
    }
}

type Told = watch::Sender<Arc<str>>;

/// What is being looked at in this process.
#[derive(Debug)]
pub(crate) struct Live {
    topics: Mutex<HashMap<Topic, Told>>,
    viewers: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            topics: Mutex::default(),
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
        }
    }
}

impl Live {
    /// Looks along with the others, or is the first to look.
    fn watch(&self, state: &AppState, topic: &Topic) -> watch::Receiver<Arc<str>> {
        let mut topics = self.topics();
        if let Some(told) = topics.get(topic) {
            let mut seen = told.subscribe();
            // Their page may be older than what the others have seen.
            if !seen.borrow().is_empty() {
                seen.mark_changed();
            }
            return seen;
        }
        let (told, seen) = watch::channel(Arc::from(""));
        topics.insert(topic.clone(), told.clone());
        tokio::spawn(look(state.clone(), topic.clone(), told));
        seen
    }

    /// Whether nobody looks any more; then it is forgotten.
    fn is_over(&self, topic: &Topic, told: &Told) -> bool {
        let mut topics = self.topics();
        let is_over = told.receiver_count() == 0;
        if is_over {
            topics.remove(topic);
        }
        is_over
    }

    fn topics(&self) -> std::sync::MutexGuard<'_, HashMap<Topic, Told>> {
        self.topics
            .lock()
            .expect("invariant: no panic under this lock")
    }
}

/// Looks again and again, for all who want to know.
async fn look(state: AppState, topic: Topic, told: Told) {
    loop {
        // What cannot be seen now may be seen again; meanwhile the page shows what it has.
        if let Ok(text) = topic.rendered(&state).await {
            told.send_if_modified(|old| {
                let is_new = **old != *text;
                if is_new {
                    *old = text.into();
                }
                is_new
            });
        }
        tokio::select! {
            _ = timeout(PAUSE, told.closed()) => {}
            () = state.drained() => {}
        }
        if state.is_draining() || state.live.is_over(&topic, &told) {
            state.live.topics().remove(&topic);
            return;
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct EventsQuery {
    topic: String,
}

/// Somebody's view.
struct View {
    state: AppState,
    seen: watch::Receiver<Arc<str>>,
    ends_at: Instant,
    _place: OwnedSemaphorePermit,
}

/// What changes, as it changes.
pub(super) async fn events(
    State(state): State<AppState>,
    Params(query): Params<EventsQuery>,
) -> Result<Response, Problem> {
    let topic = Topic::read(&query.topic);
    let topic =
        topic.ok_or_else(|| Problem::invalid("topic", "is nothing that can be looked at"))?;
    let place = Arc::clone(&state.live.viewers).try_acquire_owned();
    let place = place.map_err(|_| {
        let detail = "as many pages are kept up to date as may be; this one shows what it has";
        Problem::new(codes::OVERLOADED, detail).retry_after(Duration::from_secs(10))
    })?;
    let view = View {
        seen: state.live.watch(&state, &topic),
        ends_at: Instant::now() + STREAM_MAX,
        state,
        _place: place,
    };
    let events = stream::unfold(view, |view| view.next());
    let mut response = Response::new(Body::from_stream(events));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

impl View {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if Instant::now() >= self.ends_at {
            return None;
        }
        let state = self.state.clone();
        let changed = tokio::select! {
            changed = timeout(SIGN_OF_LIFE, self.seen.changed()) => changed,
            () = state.drained() => return None,
        };
        let text = match changed {
            Ok(Ok(())) => event(&self.seen.borrow_and_update()),
            Ok(Err(_)) => return None,
            Err(_) => ": still here\n\n".to_owned(),
        };
        Some((Ok(Bytes::from(text)), self))
    }
}

/// A text as an event.
fn event(text: &str) -> String {
    let mut event = String::from("event: live\n");
    // A lone carriage return ends a line too; what stands behind it must not pass for a field.
    let text = text.replace("\r\n", "\n");
    for line in text.trim_end_matches('\n').split(['\n', '\r']) {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_as_they_are_written() {
        for text in [
            "overview:hour",
            "overview:day",
            "lane:mail",
            "lane:mail:dead",
            "message:7",
            "redrive:3",
            "leases",
            "dead",
        ] {
            assert_eq!(Topic::read(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "lane:",
            "lane:A b",
            "lane:mail:gone",
            "message:x",
            "../x",
            "redrive:",
        ] {
            assert_eq!(Topic::read(text), None, "{text}");
        }
    }

    #[test]
    fn no_line_of_a_text_can_be_taken_for_a_field() {
        assert_eq!(
            event("<p>\r\nevent: x\n\n</p>\n"),
            "event: live\ndata: <p>\ndata: event: x\ndata: \ndata: </p>\n\n"
        );
        assert_eq!(
            event("<p>k\r\revent: live</p>"),
            "event: live\ndata: <p>k\ndata: \ndata: event: live</p>\n\n"
        );
    }
}
