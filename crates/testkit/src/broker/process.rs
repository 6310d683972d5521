//! The broker's own process.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::BufReader,
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::{
    journal::{BrokerEvent, BrokerJournal, JournalWriter},
    step::{BrokerManner, Step},
    submission::{self, Submission},
    wire::{self, Reply, Request},
};

/// Where it listens; its presence makes a program the broker.
pub(super) const LISTEN: &str = "HONEST_BROKER_LISTEN";
/// The file it remembers by.
pub(super) const JOURNAL: &str = "HONEST_BROKER_JOURNAL";
/// The path that sets its behaviour.
pub(super) const CONTROL: &str = "/control";

const UNREADABLE: &str = "<html>this is not what you were looking for</html>";

/// Everything the broker knows.
struct Broker {
    memory: Mutex<Memory>,
    manner: watch::Sender<BrokerManner>,
}

struct Memory {
    pen: JournalWriter,
    /// How often a key was sent.
    sends: BTreeMap<String, usize>,
    /// The body a key was first sent with.
    bodies: BTreeMap<String, String>,
    /// The answer to a key that was executed, and how many executions there were.
    answers: BTreeMap<String, String>,
    executions: usize,
    in_flight: usize,
}

/// Serves until it is killed, if the environment makes this program the broker.
pub(super) async fn serve_if_told() {
    let (Ok(listen), Some(journal)) = (std::env::var(LISTEN), std::env::var_os(JOURNAL)) else {
        return;
    };
    let address: SocketAddr = listen.parse().expect("an address to listen on");
    let listener = TcpListener::bind(address).await.expect("listen");
    let broker = Arc::new(Broker::remembering(&PathBuf::from(journal)));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let broker = Arc::clone(&broker);
        tokio::spawn(async move { broker.serve_connection(stream).await });
    }
}

impl Broker {
    fn remembering(path: &Path) -> Self {
        let mut memory = Memory {
            pen: JournalWriter::at(path),
            sends: BTreeMap::new(),
            bodies: BTreeMap::new(),
            answers: BTreeMap::new(),
            executions: 0,
            in_flight: 0,
        };
        let mut now = BrokerManner::default();
        for event in BrokerJournal::read(path).0 {
            match event {
                BrokerEvent::Error { manner } => now = manner,
                event => memory.learn(event),
            }
        }
        Self {
            memory: Mutex::new(memory),
            manner: watch::Sender::new(now),
        }
    }

    async fn serve_connection(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = wire::read(&mut stream).await {
            let (reply, is_order) = match (request.method.as_str(), request.target.as_str()) {
                ("PUT", CONTROL) => (self.set_manner(&request), false),
                ("POST", _) => (self.take(request).await, true),
                ("GET", _) => (self.status(&request), false),
                _ => (Reply::json(405, "{}".into()), false),
            };
            let goes_on = wire::write(&mut stream, reply).await;
            if is_order {
                self.remember(|memory| memory.in_flight -= 1);
            }
            if !goes_on {
                return;
            }
        }
    }

    fn set_manner(&self, request: &Request) -> Reply {
        let manner: BrokerManner = match serde_json::from_str(&request.body) {
            Ok(manner) => manner,
            Err(error) => return Reply::json(400, format!("{:?}", error.to_string())),
        };
        let event = BrokerEvent::Error {
            manner: manner.clone(),
        };
        self.remember(|memory| memory.pen.write(&event));
        self.manner.send_replace(manner);
        Reply::json(200, "{}".into())
    }

    /// What became of a key: the last part of the path.
    fn status(&self, request: &Request) -> Reply {
        let key = request.target.rsplit('/').next().unwrap_or_default();
        let key = wire::decode(key);
        let (is_willing, is_open) = {
            let manner = self.manner.borrow();
            (manner.answers_queries, manner.is_open)
        };
        self.remember(|memory| {
            let answer = memory.answers.get(&key).cloned();
            let is_pending = !is_open && memory.sends.contains_key(&key);
            memory.pen.write(&BrokerEvent::Asked {
                key,
                was_told: is_willing && answer.is_some(),
            });
            match (is_willing, answer) {
                (false, _) => Reply::json(501, "{}".into()),
                (true, None) => Reply::json(404, submission::unknown(&request.target, is_pending)),
                (true, Some(answer)) => Reply::json(200, answer),
            }
        })
    }

    /// An order: counted first, then acted on once the gate is open.
    async fn take(&self, request: Request) -> Reply {
        let key = request.headers.get("idempotency-key").cloned();
        let key = key.unwrap_or_default();
        let (send, is_other) = self.remember(|memory| {
            let send = memory.sends.get(&key).copied().unwrap_or_default();
            memory.in_flight += 1;
            memory.note(BrokerEvent::Sent {
                key: key.clone(),
                headers: request.headers.clone(),
                body: request.body.clone(),
                in_flight: memory.in_flight,
                at: jiff::Timestamp::now(),
            });
            (send, memory.bodies.get(&key) != Some(&request.body))
        });
        let mut manner = self.manner.subscribe();
        let manner = manner.wait_for(|manner| manner.is_open).await;
        let manner = manner.expect("the broker holds the sender").clone();
        if key.is_empty() {
            return Reply::json(400, r#"{"error":"no Idempotency-Key"}"#.into());
        }
        if is_other && manner.dedupes {
            return Reply::json(409, r#"{"error":"another order has this key"}"#.into());
        }
        let order = match Submission::parse(&request.target, &request.body) {
            Ok(order) => order,
            Err(error) => return Reply::json(422, format!("{{\"error\":{error:?}}}")),
        };
        let step = match order.step(send) {
            Ok(step) => step.unwrap_or_else(|| manner.otherwise.clone()),
            Err(error) => return Reply::json(422, format!("{{\"error\":{error:?}}}")),
        };
        let execute = |qty: &str| self.execute(&key, &order, qty, manner.dedupes);
        act(step, &order, &request, execute).await
    }

    /// Executes an order unless its key was executed before and that counts; the answer.
    fn execute(&self, key: &str, order: &Submission<'_>, qty: &str, dedupes: bool) -> String {
        self.remember(|memory| {
            match memory.answers.get(key) {
                Some(answer) if dedupes => return answer.clone(),
                _ => {}
            }
            let answer = order.executed(qty, memory.executions + 1);
            memory.note(BrokerEvent::Executed {
                key: key.to_owned(),
                qty: qty.to_owned(),
                answer: answer.clone(),
            });
            answer
        })
    }

    fn remember<T>(&self, with: impl FnOnce(&mut Memory) -> T) -> T {
        with(
            &mut self
                .memory
                .lock()
                .expect("invariant: no panic under this lock"),
        )
    }
}

impl Memory {
    /// Writes an event down and learns from it.
    fn note(&mut self, event: BrokerEvent) {
        self.pen.write(&event);
        self.learn(event);
    }

    fn learn(&mut self, event: BrokerEvent) {
        match event {
            BrokerEvent::Sent { key, body, .. } => {
                *self.sends.entry(key.clone()).or_default() += 1;
                self.bodies.entry(key).or_insert(body);
            }
            BrokerEvent::Executed { key, answer, .. } => {
                self.executions += 1;
                self.answers.insert(key, answer);
            }
            BrokerEvent::Error { .. } | BrokerEvent::Asked { .. } => {}
        }
    }
}

/// Plays a step.
async fn act(
    step: Step,
    order: &Submission<'_>,
    request: &Request,
    execute: impl Fn(&str) -> String,
) -> Reply {
    match step {
        Step::Fill => Reply::json(200, execute(&order.qty())),
        Step::Partial(qty) => Reply::json(200, execute(&qty)),
        Step::Nothing => Reply::json(200, execute("0")),
        Step::Slow(time) => {
            rest(time).await;
            Reply::json(200, execute(&order.qty()))
        }
        Step::Reject => Reply::json(200, order.rejected()),
        Step::Refuse(status) => Reply::json(status, format!(r#"{{"error":"{status}"}}"#)),
        Step::Busy(seconds) => Reply::Answer {
            status: 429,
            headers: vec![("retry-after", seconds.to_string())],
            body: String::new(),
        },
        Step::Blab(status) => Reply::json(status, blab(request)),
        Step::Hang => Reply::Silence,
        Step::Drop => Reply::Close,
        Step::Garbage => Reply::json(200, UNREADABLE.into()),
        Step::ExecuteHang => {
            execute(&order.qty());
            Reply::Silence
        }
        Step::ExecuteDrop => {
            execute(&order.qty());
            Reply::Close
        }
        Step::ExecuteGarbage => {
            execute(&order.qty());
            Reply::json(200, UNREADABLE.into())
        }
    }
}

/// An error message that repeats everything it was sent.
fn blab(request: &Request) -> String {
    let said = format!("{:?} {}", request.headers, request.body);
    serde_json::json!({"error": "INTERNAL_ERROR", "message": said}).to_string()
}

/// Taking time is what a slow broker is there for; nothing is waited for.
async fn rest(time: Duration) {
    tokio::time::timeout(time, std::future::pending::<()>())
        .await
        .unwrap_or_default();
}
