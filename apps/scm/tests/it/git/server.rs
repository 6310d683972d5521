//! A web server with a Git repository in a folder, which can be told to misbehave.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

/// What it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    /// Answers so to everything, so often.
    Failing(StatusCode, u32),
    /// Takes a request and never answers.
    Hanging,
    /// Sends everybody elsewhere.
    Sending(String),
}

#[derive(Clone)]
pub(super) struct Server {
    root: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) mood: Arc<Mutex<Mood>>,
    /// Who may read; absent: everybody.
    pub(super) header: Arc<Mutex<Option<String>>>,
    /// How often a repository was asked for (`info/refs`), and with which header.
    pub(super) asked: Arc<Mutex<Vec<Option<String>>>>,
}

impl Server {
    pub(super) async fn start(root: PathBuf) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            root,
            address: listener.local_addr().unwrap(),
            mood: Arc::new(Mutex::new(Mood::Well)),
            header: Arc::default(),
            asked: Arc::default(),
        };
        let routes = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async { axum::serve(listener, routes).await });
        server
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/repo.git", self.address)
    }

    pub(super) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }
}

async fn answer(State(server): State<Server>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.map(|value| value.to_str().unwrap().to_owned());
    if path.ends_with("info/refs") {
        server.asked.lock().unwrap().push(given.clone());
    }
    let mood = server.mood.lock().unwrap().clone();
    match mood {
        Mood::Well => {}
        Mood::Hanging => std::future::pending().await,
        Mood::Sending(place) => {
            let place = format!("{place}/{path}?service=git-upload-pack");
            return (StatusCode::FOUND, [(header::LOCATION, place)]).into_response();
        }
        Mood::Failing(status, 0) => {
            server.set(Mood::Well);
            tracing::debug!(%status, "well again");
        }
        Mood::Failing(status, more) => {
            server.set(Mood::Failing(status, more - 1));
            return status.into_response();
        }
    }
    let wanted = server.header.lock().unwrap().clone();
    if wanted.is_some() && wanted != given {
        let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"git\"")];
        return (StatusCode::UNAUTHORIZED, ask).into_response();
    }
    match std::fs::read(server.root.join(path)) {
        Ok(bytes) => bytes.into_response(),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    }
}
