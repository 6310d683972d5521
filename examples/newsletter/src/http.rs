//! Its routes. Thin: read the request, call the port once, render.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, http::StatusCode, response::Response};
use consign_server::apps::{
    Access, Errors, Extension, GET, InPath, Json, POST, Problem, Reach, Route, Routes, codes,
    json_answer,
};
use serde::Deserialize;
use serde_json::json;
use utoipa::OpenApi as _;

use crate::{Address, Subscriber, Subscribers};

/// The app's part of a server.
#[derive(Clone, Debug)]
pub struct NewsletterHttp {
    /// None: the app is off.
    subscribers: Option<Arc<dyn Subscribers>>,
}

#[derive(utoipa::OpenApi)]
#[openapi(paths(subscribe, show), tags((name = "newsletter", description = "Subscribers and their welcomes")))]
struct Document;

impl NewsletterHttp {
    /// On these subscribers.
    pub fn new(subscribers: Arc<dyn Subscribers>) -> Self {
        let subscribers = Some(subscribers);
        Self { subscribers }
    }

    /// The app is off: its routes answer 404.
    pub fn off() -> Self {
        Self { subscribers: None }
    }

    fn subscribers(&self) -> Result<&dyn Subscribers, Problem> {
        let off = || Problem::new(codes::NOT_FOUND, "the app newsletter is off");
        self.subscribers.as_deref().ok_or_else(off)
    }
}

impl Extension for NewsletterHttp {
    fn name(&self) -> &'static str {
        crate::QUEUE
    }

    fn routes(&self, routes: &mut Routes) {
        let post = Route {
            method: POST,
            path: "/v1/newsletter/subscribers",
            access: Access::ENQUEUE,
            reach: Reach::AllTenants,
            problems: &[codes::NOT_FOUND],
            errors: Errors::problems(),
            wait_max: Duration::ZERO,
        };
        let get = Route {
            method: GET,
            path: "/v1/newsletter/subscribers/{address}",
            access: Access::READ_OWN,
            ..post.clone()
        };
        routes.add_with(post, subscribe, self.clone());
        routes.add_with(get, show, self.clone());
    }

    fn openapi(&self) -> Option<utoipa::openapi::OpenApi> {
        Some(Document::openapi())
    }

    fn index(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("POST /v1/newsletter/subscribers", "subscribe an address"),
            (
                "GET  /v1/newsletter/subscribers/{address}",
                "one subscriber",
            ),
        ]
    }
}

/// The body of a subscription.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct Subscription {
    /// NAME@DOMAIN, at most 254 bytes
    address: String,
}

/// Subscribe an address
#[utoipa::path(
    post, path = "/v1/newsletter/subscribers", operation_id = "subscribe", tag = "newsletter",
    request_body = Subscription,
    responses((status = 200, description = "The subscriber", content_type = "application/json", body = Object)),
)]
async fn subscribe(
    State(http): State<NewsletterHttp>,
    Json(body): Json<Subscription>,
) -> Result<Response, Problem> {
    let address: Address = body.address.parse()?;
    Ok(rendered(&http.subscribers()?.subscribe(&address).await?))
}

/// One subscriber
#[utoipa::path(
    get, path = "/v1/newsletter/subscribers/{address}", operation_id = "show_subscriber", tag = "newsletter",
    params(("address" = String, Path, description = "NAME@DOMAIN")),
    responses((status = 200, description = "The subscriber", content_type = "application/json", body = Object)),
)]
async fn show(
    State(http): State<NewsletterHttp>,
    InPath(address): InPath<String>,
) -> Result<Response, Problem> {
    let address: Address = address.parse()?;
    let found = http.subscribers()?.subscriber(&address).await?;
    let none = || Problem::new(codes::NOT_FOUND, format!("no subscriber {address}"));
    Ok(rendered(&found.ok_or_else(none)?))
}

fn rendered(subscriber: &Subscriber) -> Response {
    json_answer(StatusCode::OK, &json!(subscriber))
}
