//! A web server for a Git repository in a folder, with scripted faults.

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
pub(super) enum ServerMode {
    Well,
    /// Answers so to everything, so often.
    Failing(StatusCode, u32),
    /// Takes a request and never answers.
    Hanging,
    /// Redirects every request.
    Sending(String),
}

#[derive(Clone)]
pub(super) struct Server {
    root: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) mood: Arc<Mutex<ServerMode>>,
    /// Required credential; `None`: public.
    pub(super) header: Arc<Mutex<Option<String>>>,
    /// Requests for a repository (`info/refs`), with their header.
    pub(super) requests: Arc<Mutex<Vec<Option<String>>>>,
}

impl Server {
    pub(super) async fn start(root: PathBuf) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            root,
            address: listener.local_addr().unwrap(),
            mood: Arc::new(Mutex::new(ServerMode::Well)),
            header: Arc::default(),
            requests: Arc::default(),
        };
        let routes = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async { axum::serve(listener, routes).await });
        server
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/repo.git", self.address)
    }

    pub(super) fn set(&self, mood: ServerMode) {
        *self.mood.lock().unwrap() = mood;
    }
}

async fn answer(State(server): State<Server>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.map(|value| value.to_str().unwrap().to_owned());
    if path.ends_with("info/refs") {
        server.requests.lock().unwrap().push(given.clone());
    }
    let mood = server.mood.lock().unwrap().clone();
    match mood {
        ServerMode::Well => {}
        ServerMode::Hanging => std::future::pending().await,
        ServerMode::Sending(place) => {
            let place = format!("{place}/{path}?service=git-upload-pack");
            return (StatusCode::FOUND, [(header::LOCATION, place)]).into_response();
        }
        ServerMode::Failing(status, 0) => {
            server.set(ServerMode::Well);
            tracing::debug!(%status, "well again");
        }
        ServerMode::Failing(status, more) => {
            server.set(ServerMode::Failing(status, more - 1));
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
