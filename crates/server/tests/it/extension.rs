//! What an app adds to the server, by an app that is nothing else.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use async_trait::async_trait;
use axum::{
    extract::State,
    http::{Method, StatusCode},
    response::Response,
};
use consign_kernel::{Message, NewMessage, QueueName};
use consign_server::{
    Scope, ServerOptions, Token, TokenEntry,
    apps::{
        Access, Caller, ErrorFormat, Errors, Extension, Fact, GET, Problem, QueueProfile, Reach,
        RelatedRecord, Route, Routes, TokenHolder, codes::Meaning,
    },
};
use jiff::Timestamp;
use serde_json::json;

use crate::bench::{Answer, Bench, Browser, DashboardFixture, request, set};

const BROKEN: &Meaning = &Meaning {
    code: "parcel_broken",
    status: StatusCode::CONFLICT,
    title: "the parcel is broken",
    remedy: "pack it again",
};

/// Parcels on the queue `mail`.
#[derive(Clone, Debug, Default)]
struct Parcels {
    /// The only token that opens a parcel, if there is one.
    token: Option<&'static str>,
    drained: Arc<AtomicU32>,
}

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(open),
    components(schemas(ParcelFailure)),
    tags((name = "parcels", description = "Parcels"))
)]
struct Document;

#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "described, never constructed")]
struct ParcelFailure {
    parcel: String,
}

/// Open a parcel
#[utoipa::path(
    get, path = "/parcels/{id}", operation_id = "open_parcel", tag = "parcels",
    responses((status = 200, description = "Who opened it", body = String, content_type = "text/plain")),
)]
async fn open(
    State(parcels): State<Parcels>,
    axum::Extension(caller): axum::Extension<Caller>,
) -> String {
    format!("{} of {:?}", caller.client, parcels.token)
}

fn render(problem: Problem) -> Response {
    let body = json!({"parcel": problem.meaning.code});
    problem.with_body(&body)
}

#[async_trait]
impl Extension for Parcels {
    fn name(&self) -> &'static str {
        "parcels"
    }

    fn routes(&self, routes: &mut Routes) {
        let route = Route {
            method: GET,
            path: "/parcels/{id}",
            access: Access::App(&[Scope::Auditor]),
            reach: Reach::AllTenants,
            problems: &[BROKEN],
            errors: Errors::with_codes(ErrorFormat::Custom(render), "ParcelFailure", &[]),
            wait_max: std::time::Duration::ZERO,
        };
        routes.add_with(route, open, self.clone());
    }

    fn openapi(&self) -> Option<utoipa::openapi::OpenApi> {
        Some(<Document as utoipa::OpenApi>::openapi())
    }

    fn index(&self) -> &'static [(&'static str, &'static str)] {
        &[("GET  /parcels/{id}", "open a parcel")]
    }

    fn problems(&self) -> &'static [&'static Meaning] {
        &[BROKEN]
    }

    fn error_format(&self, path: &str) -> Option<ErrorFormat> {
        let is_own = path.starts_with("/parcels");
        is_own.then_some(ErrorFormat::Custom(render))
    }

    fn has_tokens(&self) -> bool {
        self.token.is_some()
    }

    fn token_holder(&self, bearer: &str) -> Option<TokenHolder> {
        (self.token == Some(bearer)).then_some(TokenHolder {
            name: None,
            label: "porter",
            is_admin: false,
        })
    }

    fn token_settings(&self) -> Option<(&'static str, &'static str)> {
        Some(("porters", "parcels.token"))
    }

    fn navigation(&self) -> &'static [(&'static str, &'static str)] {
        &[("/ui/parcels", "Parcels")]
    }

    fn queue(&self) -> Option<QueueProfile> {
        Some(QueueProfile {
            queue: "mail",
            title: "Parcels",
            counts: ["to pack", "on the way", "kept back", "lost"],
            held: Some(|held| format!("{held} parcels kept back")),
            resolve_fields: "<input name=\"weight\">",
            resolves_unknown: false,
            can_erase: false,
        })
    }

    async fn related(
        &self,
        message: &Message,
        _: Timestamp,
        is_revealed: bool,
    ) -> Result<Vec<RelatedRecord>, Problem> {
        let text = format!("{} {is_revealed}", message.id);
        Ok(vec![RelatedRecord {
            title: "A parcel".to_owned(),
            facts: vec![Fact::new("Label", text)],
        }])
    }

    fn check_enqueue(&self, message: &NewMessage) -> Result<(), Problem> {
        match message.key.as_deref() {
            Some("heavy") => Err(Problem::invalid("key", "is too heavy")),
            _ => Ok(()),
        }
    }

    fn check_claim(&self, queue: &QueueName) -> Result<(), Problem> {
        match queue.as_str() {
            "default" => Err(Problem::invalid("queue", "has no parcels")),
            _ => Ok(()),
        }
    }

    fn drain(&self) {
        self.drained.fetch_add(1, Ordering::Relaxed);
    }

    async fn finished(&self) {
        self.drained.fetch_add(10, Ordering::Relaxed);
    }
}

async fn with(parcels: &Parcels) -> Bench {
    let bench = Bench::reference().await;
    bench.with_state(|state| state.with_extension(Arc::new(parcels.clone())))
}

async fn ask(bench: &Bench, path: &str, token: &str) -> Answer {
    let mut asked = request(Method::GET, path, None);
    set(&mut asked, &[("authorization", &format!("Bearer {token}"))]);
    bench.call(asked).await
}

#[tokio::test]
async fn its_routes_are_served_described_and_listed() {
    let bench = with(&Parcels::default()).await;
    let opened = bench.get("/parcels/7").await;
    assert!(opened.text.starts_with("anonymous@"), "{}", opened.text);
    let document = bench.get("/openapi.json").await;
    let operation = &document.json["paths"]["/parcels/{id}"]["get"];
    assert_eq!(operation["security"][0]["bearer"][0], "auditor");
    let broken = operation["responses"]["409"]["description"].as_str();
    assert_eq!(broken, Some("`PARCEL_BROKEN`: the parcel is broken"));
    let tags = document.json["tags"].as_array().unwrap();
    assert_eq!(
        (&tags[0]["name"], &tags[1]["name"]),
        (&json!("enqueue"), &json!("parcels"))
    );
    let index = bench.get("/").await;
    let line = "GET  /parcels/{id}               open a parcel\n";
    assert!(index.text.contains(line), "{}", index.text);
    let page = bench.get("/problems/parcel_broken").await;
    assert_eq!(page.json["remedy"], "pack it again");
}

#[tokio::test]
async fn its_error_format_holds_below_its_paths_and_nowhere_else() {
    let bench = with(&Parcels::default()).await;
    let missing = bench.get("/parcels/7/lid").await;
    missing.is(404);
    assert_eq!(missing.json, json!({"parcel": "not_found"}));
    let other = bench.post("/parcels/7", json!({})).await;
    other.is(405);
    assert_eq!(other.json, json!({"parcel": "method_not_allowed"}));
    bench.get("/nowhere").await.is_problem(404, "not_found");
}

#[tokio::test]
async fn its_tokens_open_its_routes_and_close_the_rest() {
    let parcels = Parcels {
        token: Some("porter's"),
        ..Parcels::default()
    };
    let bench = with(&parcels).await;
    let opened = ask(&bench, "/parcels/7", "porter's").await;
    assert_eq!(opened.text, "porter of Some(\"porter's\")");
    let unknown = ask(&bench, "/parcels/7", "nobody's").await;
    unknown.is(401);
    assert_eq!(unknown.json, json!({"parcel": "unauthorized"}));
    let closed = ask(&bench, "/v1/queues", "porter's").await;
    closed.is_problem(401, "unauthorized");
    let detail = closed.detail();
    assert!(
        detail.contains("tokens for porters only (parcels.token)"),
        "{detail}"
    );
    let entry = |name: &str, scope| TokenEntry {
        name: name.to_owned(),
        hash: Token::new(name).hash(),
        scopes: vec![scope],
    };
    let tokens = vec![
        entry("anton", Scope::Auditor),
        entry("paula", Scope::Producer),
    ];
    let bench = bench.with_options(&ServerOptions {
        tokens,
        ..ServerOptions::default()
    });
    let opened = ask(&bench, "/parcels/7", "anton").await;
    assert!(opened.text.starts_with("anton of"), "{}", opened.text);
    let refused = ask(&bench, "/parcels/7", "paula").await;
    refused.is(403);
    assert_eq!(refused.json, json!({"parcel": "scope_missing"}));
}

#[tokio::test]
async fn its_part_of_the_dashboard_is_shown() {
    let bench = with(&Parcels::default()).await;
    let id = bench.enqueue("mail", json!("secret")).await;
    let by = consign_kernel::By::new("ada", "too wet");
    let ids = [consign_kernel::MessageId(id)];
    bench.store.hold(&ids, &by).await.unwrap();
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let overview = fixture.get(&mut browser, "/").await;
    overview
        .says(200, "</svg>Parcels</a>")
        .says(200, "1 parcels kept back")
        .says(200, "<dt>kept back</dt><dd>1</dd>");
    let page = fixture
        .get(&mut browser, &format!("/ui/messages/{id}"))
        .await;
    page.says(200, "<h2>A parcel</h2>")
        .says(200, &format!("{id} false"))
        .says(200, "<input name=\"weight\">");
    assert!(!page.text.contains("value=\"unknown\""), "{}", page.text);
}

#[tokio::test]
async fn an_extension_rejects_enqueues_and_is_drained() {
    let parcels = Parcels::default();
    let bench = with(&parcels).await;
    let body = json!({"payload": 1, "key": "heavy"});
    let heavy = bench.post("/v1/queues/mail/messages", body).await;
    heavy.is_problem(400, "invalid_input");
    let claimed = bench.post("/v1/claims", json!({"queue": "default"})).await;
    claimed.is_problem(400, "invalid_input");
    bench.state.drain();
    assert_eq!(parcels.drained.load(Ordering::Relaxed), 1);
    bench.state.finished().await;
    assert_eq!(parcels.drained.load(Ordering::Relaxed), 11);
}

#[tokio::test]
async fn a_second_of_the_same_name_replaces_the_first() {
    let bench = with(&Parcels::default()).await;
    let other = Parcels {
        token: Some("porter's"),
        ..Parcels::default()
    };
    let bench = bench.with_state(|state| state.with_extension(Arc::new(other)));
    bench.get("/parcels/7").await.is(401);
}
