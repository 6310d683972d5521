//! How an app adds to the server: routes, pages, records beside a message, and what happens at the end.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use axum::{extract::Request, response::Response};
use consign_kernel::{Message, NewMessage, QueueName};
use jiff::Timestamp;
use utoipa::openapi::OpenApi;

use crate::{
    dashboard::{audit::AuditLog, beside::RelatedRecord, form::Form},
    problem::{ErrorFormat, Problem, codes::Meaning},
    routes::Routes,
};

/// An app's part of the server. Every method has a default that adds nothing.
///
/// An app that is known but not served implements it too: its routes then answer 404 with the
/// setting that enables them, and the document of the API stays the same in every process.
#[async_trait]
#[allow(unused_variables, reason = "the defaults need no argument")]
pub trait Extension: fmt::Debug + Send + Sync + 'static {
    /// The app's name. A second extension of the same name replaces the first.
    fn name(&self) -> &'static str;

    /// Adds its routes and pages.
    fn routes(&self, routes: &mut Routes) {}

    /// Its part of the OpenAPI document: paths, schemas, tags. Security and problems follow from the
    /// table of routes.
    fn openapi(&self) -> Option<OpenApi> {
        None
    }

    /// Its lines of the index at `GET /`: a method with a path, and what it does.
    fn index(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Codes that only its problems have; `GET /problems/{code}` explains them.
    fn problems(&self) -> &'static [&'static Meaning] {
        &[]
    }

    /// The error format of a path below its own that has no route; none: the path is not its own.
    fn error_format(&self, path: &str) -> Option<ErrorFormat> {
        None
    }

    /// Answers a request of its own while there is no database; `problem` is the server's answer. None: the server
    /// answers in the path's error format.
    async fn starting(&self, request: &mut Request, problem: &Problem) -> Option<Response> {
        None
    }

    /// Whether it has tokens of its own. While one app has, every path of the server needs a token.
    fn has_tokens(&self) -> bool {
        false
    }

    /// The holder of one of its own tokens. They open routes with [`Access::App`] only.
    ///
    /// [`Access::App`]: crate::apps::Access::App
    fn token_holder(&self, bearer: &str) -> Option<TokenHolder> {
        None
    }

    /// The holders of its tokens, and the settings that declare them: for errors on paths that none of them opens.
    fn token_settings(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Its entries of the dashboard's navigation: a path and a word.
    fn navigation(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// An audit log of its own on the audit page.
    fn audit_log(&self) -> Option<Arc<dyn AuditLog>> {
        None
    }

    /// How the dashboard shows its queue.
    fn queue(&self) -> Option<QueueProfile> {
        None
    }

    /// Its records about a message of its queue. What a message carries may be in them only where
    /// `is_revealed`: then the access is in the audit log.
    async fn related(
        &self,
        message: &Message,
        now: Timestamp,
        is_revealed: bool,
    ) -> Result<Vec<RelatedRecord>, Problem> {
        Ok(Vec::new())
    }

    /// The result that a form which resolves a held message carries, as JSON; none: the form has no
    /// field of this app.
    fn resolution(&self, form: &Form) -> Result<Option<String>, Problem> {
        Ok(None)
    }

    /// Rejects a message that must not be enqueued but by the app.
    fn check_enqueue(&self, message: &NewMessage) -> Result<(), Problem> {
        Ok(())
    }

    /// Rejects a claim that must not be made but by the app.
    fn check_claim(&self, queue: &QueueName) -> Result<(), Problem> {
        Ok(())
    }

    /// The process is shutting down: requests that wait return.
    fn drain(&self) {}

    /// Returns when what was taken from clients that have hung up since is done. Called when no
    /// request comes in any more.
    async fn finished(&self) {}
}

/// The holder of an app's own token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// The user of the token, if it belongs to one.
    pub name: Option<String>,
    /// What the rate limit and the audit call a holder without a name.
    pub label: &'static str,
    /// Whether the holder may administrate the app.
    pub is_admin: bool,
}

/// How the dashboard shows the queue of an app.
#[derive(Clone, Copy, Debug)]
pub struct QueueProfile {
    /// The queue's name.
    pub queue: &'static str,
    /// Heads its figures on the overview.
    pub title: &'static str,
    /// What its messages are called there: to do, under way, held, dead.
    pub counts: [&'static str; 4],
    /// The alert about so many held messages; none: the general one.
    pub held: Option<fn(u64) -> String>,
    /// HTML of the fields that resolving a held message needs besides the general ones.
    pub resolve_fields: &'static str,
    /// Whether a held message may be resolved as unknown.
    pub resolves_unknown: bool,
    /// Whether its messages can be erased.
    pub can_erase: bool,
}
