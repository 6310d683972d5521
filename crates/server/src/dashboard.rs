//! The dashboard: pages for people over the same operations as the API, behind the same gate. What
//! the API refuses, no page can do.

use std::time::Duration;

use axum::{handler::Handler, routing::MethodFilter};

use crate::{
    gate::{
        access::{Access, Reach},
        pages::EXPORT,
    },
    routes::{Contract, GET, POST, Routes, Way},
    state::AppState,
};

mod assets;
mod audit;
mod beside;
mod chart;
mod dead;
pub(crate) mod flash;
pub(crate) mod form;
mod leases;
mod list;
pub(crate) mod live;
mod login;
pub(crate) mod memory;
mod message;
mod overview;
mod queue;
mod queues;
mod rates;
pub(crate) mod refusal;
pub(crate) mod session;
mod shell;
mod words;

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
        self.page(GET, "/ui/leases", look, leases::show);
        self.page(GET, "/ui/dead", look, dead::show);
        self.page(GET, "/ui/redrives/{id}", look, dead::redrive);
        self.page(GET, "/ui/audit", look, audit::show);
        self.page(GET, EXPORT, look, audit::export);
        self.page(GET, "/ui/memory", look, memory::show);
        self.page(GET, "/ui/events", look, live::events);
        let act = Access::PAGES_OPERATE;
        self.page(POST, "/ui/queues/{queue}/pause", act, queue::pause);
        self.page(POST, "/ui/queues/{queue}/resume", act, queue::resume);
        self.page(POST, "/ui/messages/{id}/requeue", act, message::requeue);
        self.page(POST, "/ui/messages/{id}/hold", act, message::hold);
        self.page(POST, "/ui/messages/{id}/unhold", act, message::unhold);
        self.page(POST, "/ui/messages/{id}/resolve", act, message::resolve);
        self.page(GET, "/ui/dead/preview", act, dead::preview);
        self.page(POST, "/ui/redrives", act, dead::start);
        self.page(POST, "/ui/redrives/{id}/stop", act, dead::stop);
        self.page(POST, "/ui/redrives/{id}/resume", act, dead::resume);
        self.page(GET, "/ui/memory/reconcile", act, memory::preview);
        self.page(POST, "/ui/memory/reconcile", act, memory::run);
    }

    fn page<H, T>(
        &mut self,
        method: (&'static str, MethodFilter),
        path: &'static str,
        access: Access,
        handler: H,
    ) where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let way = Way {
            method,
            path,
            access,
            reach: Reach::Everybody,
            problems: &[],
            contract: Contract::Pages,
            patience: Duration::ZERO,
        };
        self.add_way(way, handler);
    }
}
