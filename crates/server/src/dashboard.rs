//! The dashboard: pages over the same operations as the API, behind the same gate. What
//! the API rejects, no page can do.

use std::time::Duration;

use axum::handler::Handler;

use crate::{
    gate::{
        access::{Access, Reach},
        pages::EXPORT,
    },
    routes::{Errors, GET, POST, Route, Routes, Verb},
    state::AppState,
};

mod assets;
pub(crate) mod audit;
pub(crate) mod beside;
mod chart;
mod charts;
mod dead;
pub(crate) mod flash;
pub(crate) mod form;
mod history;
mod leases;
mod list;
pub(crate) mod live;
mod login;
mod message;
mod overview;
mod problems;
mod queue;
mod queues;
mod rates;
pub(crate) mod refusal;
pub(crate) mod session;
pub(crate) mod shell;
pub(crate) mod words;

pub(crate) use overview::front;

impl Routes {
    /// Every page.
    pub(crate) fn dashboard(&mut self) {
        self.page(GET, "/ui/static/{file}", Access::Open, assets::serve);
        self.page(GET, "/ui/login", Access::Open, login::show);
        self.page(POST, "/ui/login", Access::Login, login::enter);
        self.page(POST, "/ui/logout", Access::Leave, login::leave);
        self.page(GET, "/ui", Access::Open, shell::front);
        let look = Access::PAGES;
        self.page(GET, "/ui/queues/{queue}", look, queue::show);
        self.page(GET, "/ui/messages", look, list::show);
        self.page(GET, "/ui/messages/{id}", look, message::show);
        self.page(POST, "/ui/messages/{id}/reveal", look, message::reveal);
        self.page(GET, "/ui/messages/{id}/reveal", look, shell::hidden);
        self.page(GET, "/ui/problems", look, problems::show);
        self.page(GET, "/ui/leases", look, leases::show);
        self.page(GET, "/ui/dead", look, dead::show);
        self.page(GET, "/ui/redrives/{id}", look, dead::redrive);
        self.page(GET, "/ui/history", look, history::show);
        self.page(GET, "/ui/audit", look, audit::show);
        self.page(GET, EXPORT, look, audit::export);
        self.page(GET, "/ui/events", look, live::events);
        let act = Access::PAGES_OPERATE;
        self.page(POST, "/ui/queues/{queue}/pause", act, queue::pause);
        self.page(POST, "/ui/queues/{queue}/resume", act, queue::resume);
        self.page(POST, "/ui/messages/{id}/requeue", act, message::requeue);
        self.page(POST, "/ui/messages/{id}/hold", act, message::hold);
        self.page(POST, "/ui/messages/{id}/unhold", act, message::unhold);
        self.page(POST, "/ui/messages/{id}/resolve", act, message::resolve);
        self.page(POST, "/ui/messages/{id}/discard", act, message::discard);
        self.page(POST, "/ui/messages/{id}/cancel", act, message::cancel);
        self.page(POST, "/ui/messages/{id}/erase", act, message::erase);
        self.page(POST, "/ui/problems/acknowledge", act, problems::acknowledge);
        self.page(POST, "/ui/problems/reopen", act, problems::reopen);
        self.page(GET, "/ui/dead/preview", act, dead::preview);
        self.page(POST, "/ui/redrives", act, dead::start);
        self.page(POST, "/ui/redrives/{id}/stop", act, dead::stop);
        self.page(POST, "/ui/redrives/{id}/resume", act, dead::resume);
    }

    fn page<H, T>(&mut self, method: Verb, path: &'static str, access: Access, handler: H)
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let route = Route {
            method,
            path,
            access,
            reach: Reach::AllTenants,
            problems: &[],
            errors: Errors::pages(),
            wait_max: Duration::ZERO,
        };
        self.add_way(route, handler);
    }
}
