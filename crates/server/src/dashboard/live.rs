//! Pages that keep themselves up to date: what has changed is sent as server-sent events.
//!
//! All viewers of the same page share one read of the database every two seconds, which ends when
//! the last viewer leaves. While the database does not answer, the page shows since when.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use consign_kernel::{MessageId, QueueName, RedriveId, StateKind};
use futures_util::stream;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, timeout},
};

use super::{dead, message, overview, processes, query::Query, queue, queue_list, rates::Window};
use crate::{
    extract::Params,
    gate::access::Caller,
    problem::{Problem, codes},
    state::AppState,
};

const PAUSE: Duration = Duration::from_secs(2);
/// A read that takes longer is cancelled, and the page is marked as stale.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Sent when nothing changes, so that a broken connection is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// A stream ends after this long: the browser comes again, and shows its session again.
const STREAM_MAX: Duration = Duration::from_secs(10 * 60);
const VIEWERS_MAX: usize = 256;
/// Of one token, or of one address where there are no tokens, so that one client cannot take all slots.
const VIEWERS_OF_CLIENT_MAX: usize = 64;

/// A page with live updates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Overview(Window, Option<QueueName>),
    Queue(QueueName, Option<StateKind>, Window),
    Message(MessageId),
    Redrive(RedriveId),
    Processes,
    Queues(Option<QueueName>),
    Dead,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overview(window, None) => write!(f, "overview:{}", window.as_str()),
            Self::Overview(window, Some(after)) => {
                write!(f, "overview:{}:{after}", window.as_str())
            }
            Self::Queue(queue, state, window) => {
                let state = state.map_or("", StateKind::as_str);
                write!(f, "queue:{queue}:{state}:{}", window.as_str())
            }
            Self::Message(id) => write!(f, "message:{id}"),
            Self::Redrive(id) => write!(f, "redrive:{id}"),
            Self::Processes => f.write_str("processes"),
            Self::Queues(None) => f.write_str("queues"),
            Self::Queues(Some(after)) => write!(f, "queues:{after}"),
            Self::Dead => f.write_str("dead"),
        }
    }
}

impl Topic {
    fn read(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        Some(match kind {
            "overview" => {
                let (window, after) = rest.split_once(':').unwrap_or((rest, ""));
                let after = (!after.is_empty()).then_some(after);
                let after = after.map(str::parse).transpose().ok()?;
                Self::Overview(Window::read(Some(window)), after)
            }
            "processes" => Self::Processes,
            "queues" => {
                let after = (!rest.is_empty()).then_some(rest);
                Self::Queues(after.map(str::parse).transpose().ok()?)
            }
            "dead" => Self::Dead,
            "message" => Self::Message(MessageId(rest.parse().ok()?)),
            "redrive" => Self::Redrive(RedriveId(rest.parse().ok()?)),
            "queue" => {
                let (queue, rest) = rest.split_once(':').unwrap_or((rest, ""));
                let (state, window) = rest.split_once(':').unwrap_or((rest, ""));
                let state = (!state.is_empty()).then_some(state);
                let state = state.map(str::parse).transpose().ok()?;
                Self::Queue(queue.parse().ok()?, state, Window::read(Some(window)))
            }
            _ => return None,
        })
    }

    /// The current HTML, or an error after a timeout.
    async fn rendered(&self, state: &AppState) -> Result<String, Problem> {
        let looked = timeout(LOOK_MAX, self.looked_at(state)).await;
        looked.unwrap_or_else(|_| {
            let detail = "the database did not answer in time";
            Err(Problem::new(codes::REQUEST_TIMEOUT, detail))
        })
    }

    async fn looked_at(&self, state: &AppState) -> Result<String, Problem> {
        match self {
            Self::Overview(window, after) => overview::live(state, *window, after.as_ref()).await,
            Self::Queue(name, kind, window) => {
                let query = Query {
                    queue: Some(name.clone()),
                    state: *kind,
                    ..Query::default()
                };
                queue::live(state, name, &query, *window).await
            }
            Self::Message(id) => message::live(state, *id).await,
            Self::Redrive(id) => dead::redrive_live(state, *id).await,
            Self::Processes => processes::live(state).await,
            Self::Queues(after) => queue_list::live(state, after.as_ref()).await,
            Self::Dead => dead::live(state, &dead::everything()).await,
        }
    }
}

/// The last HTML.
#[derive(Clone, Debug, Default)]
struct ViewState {
    text: Arc<str>,
    /// Since when it could not be refreshed.
    stale_since: Option<Timestamp>,
}

type ViewSender = watch::Sender<ViewState>;

/// The live pages of this process.
#[derive(Debug)]
pub(crate) struct LiveViews {
    topics: Mutex<HashMap<Topic, ViewSender>>,
    viewers: Arc<Semaphore>,
    /// Slots in use, by client.
    clients: Mutex<HashMap<String, usize>>,
}

impl Default for LiveViews {
    fn default() -> Self {
        Self {
            topics: Mutex::default(),
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
            clients: Mutex::default(),
        }
    }
}

/// A viewer's slot, released when it is dropped.
struct ViewerSlot {
    live: Arc<LiveViews>,
    client: String,
    _permit: OwnedSemaphorePermit,
}

impl ViewerSlot {
    fn take(live: &Arc<LiveViews>, client: &str) -> Option<Self> {
        let permit = Arc::clone(&live.viewers).try_acquire_owned().ok()?;
        let mut clients = live.clients();
        let taken = clients.entry(client.to_owned()).or_default();
        if *taken >= VIEWERS_OF_CLIENT_MAX {
            return None;
        }
        *taken += 1;
        Some(Self {
            live: Arc::clone(live),
            client: client.to_owned(),
            _permit: permit,
        })
    }
}

impl Drop for ViewerSlot {
    fn drop(&mut self) {
        let mut clients = self.live.clients();
        let left = clients.get(&self.client).map_or(0, |taken| taken - 1);
        match left {
            0 => clients.remove(&self.client),
            _ => clients.insert(self.client.clone(), left),
        };
    }
}

impl LiveViews {
    /// Joins the other viewers, if there are any.
    fn join(&self, topic: &Topic) -> Option<watch::Receiver<ViewState>> {
        let mut seen = self.topics().get(topic)?.subscribe();
        // Their page may be older than what the others have.
        seen.mark_changed();
        Some(seen)
    }

    /// The same, or starts the refresh as the first viewer.
    fn watch(
        &self,
        state: &AppState,
        topic: &Topic,
        first: ViewState,
    ) -> watch::Receiver<ViewState> {
        let mut topics = self.topics();
        let sender = topics.entry(topic.clone()).or_insert_with(|| {
            let sender = watch::Sender::new(first);
            let looking = RefreshGuard {
                live: Arc::clone(&state.live),
                topic: topic.clone(),
                sender: sender.clone(),
            };
            tokio::spawn(look(state.clone(), looking));
            sender
        });
        let mut seen = sender.subscribe();
        seen.mark_changed();
        seen
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
        self.clients
            .lock()
            .expect("invariant: no panic under this lock")
    }

    /// Whether there is no viewer left; then the topic is removed.
    fn is_over(&self, topic: &Topic, sender: &ViewSender) -> bool {
        let mut topics = self.topics();
        let is_over = sender.receiver_count() == 0;
        if is_over {
            forget(&mut topics, topic, sender);
        }
        is_over
    }

    fn topics(&self) -> std::sync::MutexGuard<'_, HashMap<Topic, ViewSender>> {
        self.topics
            .lock()
            .expect("invariant: no panic under this lock")
    }
}

/// Removes a topic, unless it has a viewer again.
fn forget(topics: &mut HashMap<Topic, ViewSender>, topic: &Topic, sender: &ViewSender) {
    if topics.get(topic).is_some_and(|it| it.same_channel(sender)) {
        topics.remove(topic);
    }
}

/// The refresh ends when this is dropped, also by a panic: then streams end too, and the next viewer
/// starts another.
struct RefreshGuard {
    live: Arc<LiveViews>,
    topic: Topic,
    sender: ViewSender,
}

impl Drop for RefreshGuard {
    fn drop(&mut self) {
        forget(&mut self.live.topics(), &self.topic, &self.sender);
    }
}

/// Refreshes a topic for all its viewers.
async fn look(state: AppState, looking: RefreshGuard) {
    let RefreshGuard { topic, sender, .. } = &looking;
    loop {
        tokio::select! {
            _ = timeout(PAUSE, sender.closed()) => {}
            () = state.drained() => {}
        }
        if state.is_draining() || state.live.is_over(topic, sender) {
            return;
        }
        match topic.rendered(&state).await {
            Ok(text) => sender.send_if_modified(|old| {
                let is_new = *old.text != *text || old.stale_since.is_some();
                if is_new {
                    *old = ViewState::new(text);
                }
                is_new
            }),
            Err(problem) if problem.meaning.status == StatusCode::NOT_FOUND => {
                // It was there and is gone: the streams end, and the next request gets an error.
                return;
            }
            Err(_) => sender.send_if_modified(|old| {
                let is_new = old.stale_since.is_none();
                old.stale_since.get_or_insert((state.clock)());
                is_new
            }),
        };
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct EventsQuery {
    topic: String,
}

/// A viewer's stream.
struct View {
    state: AppState,
    seen: watch::Receiver<ViewState>,
    ends_at: Instant,
    _place: ViewerSlot,
}

/// What changes, as it changes.
pub(super) async fn events(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<EventsQuery>,
) -> Result<Response, Problem> {
    let topic = Topic::read(&query.topic);
    let topic = topic
        .ok_or_else(|| Problem::invalid("topic", &format!("unknown topic {:?}", query.topic)))?;
    let place = ViewerSlot::take(&state.live, &caller.client).ok_or_else(|| {
        let detail = "too many pages are being updated; this one no longer refreshes";
        Problem::new(codes::OVERLOADED, detail).retry_after(Duration::from_secs(10))
    })?;
    let seen = match state.live.join(&topic) {
        Some(seen) => seen,
        // The first viewer gets an error at once where there is no such page.
        None => {
            let first = match topic.rendered(&state).await {
                Ok(text) => ViewState::new(text),
                Err(problem) if problem.meaning.status == StatusCode::NOT_FOUND => {
                    return Err(problem);
                }
                Err(_) => ViewState {
                    stale_since: Some((state.clock)()),
                    ..ViewState::default()
                },
            };
            state.live.watch(&state, &topic, first)
        }
    };
    let view = View {
        seen,
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
            Ok(Ok(())) => self.seen.borrow_and_update().event(),
            Ok(Err(_)) => return None,
            Err(_) => ": still here\n\n".to_owned(),
        };
        Some((Ok(Bytes::from(text)), self))
    }
}

impl ViewState {
    fn new(text: String) -> Self {
        Self {
            text: text.into(),
            stale_since: None,
        }
    }

    /// The event of a state: the HTML, or since when it is stale.
    fn event(&self) -> String {
        match self.stale_since {
            Some(since) => format!("event: stale\ndata: {since:.0}\n\n"),
            None => event(&self.text),
        }
    }
}

/// A text as an event.
fn event(text: &str) -> String {
    let mut event = String::from("event: live\n");
    // A lone carriage return ends a line too; what follows it must not pass for a field.
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
            "overview:week",
            "queue:mail::hour",
            "queue:mail:dead:day",
            "message:7",
            "redrive:3",
            "processes",
            "queues",
            "queues:mail",
            "dead",
        ] {
            assert_eq!(Topic::read(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "queue:",
            "queue:A b",
            "queue:mail:gone",
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
