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
mod bulk;
mod chart;
mod charts;
mod commands;
mod dead;
pub(crate) mod flash;
pub(crate) mod form;
mod history;
mod icons;
mod list;
pub(crate) mod live;
mod login;
mod message;
mod moves;
mod neighbours;
mod overview;
mod policy_words;
mod problems;
mod processes;
mod query;
mod queue;
mod queue_list;
mod queues;
mod rates;
pub(crate) mod refusal;
mod resend;
mod schedules;
pub(crate) mod session;
pub(crate) mod shell;
mod timeline;
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
        self.page(GET, "/ui/queues", look, queue_list::show);
        self.page(GET, "/ui/queues/{queue}", look, queue::show);
        self.page(GET, "/ui/messages", look, list::show);
        self.page(GET, "/ui/messages/{id}", look, message::show);
        self.page(POST, "/ui/messages/{id}/reveal", look, message::reveal);
        self.page(GET, "/ui/messages/{id}/reveal", look, shell::hidden);
        self.page(GET, "/ui/problems", look, problems::show);
        self.page(GET, "/ui/processes", look, processes::show);
        self.page(GET, "/ui/leases", look, processes::former);
        self.page(GET, "/ui/schedules", look, schedules::list);
        self.page(GET, "/ui/schedules/{name}", look, schedules::show);
        self.page(GET, "/ui/dead", look, dead::show);
        self.page(GET, "/ui/redrives/{id}", look, dead::redrive);
        self.page(GET, "/ui/history", look, history::show);
        self.page(GET, "/ui/audit", look, audit::show);
        self.page(GET, EXPORT, look, audit::export);
        self.page(GET, "/ui/events", look, live::events);
        let act = Access::PAGES_OPERATE;
        self.page(POST, "/ui/queues/{queue}/pause", act, queue::pause);
        self.page(POST, "/ui/queues/{queue}/resume", act, queue::resume);
        self.page(POST, "/ui/messages/{id}/requeue", act, moves::requeue);
        self.page(POST, "/ui/messages/{id}/hold", act, moves::hold);
        self.page(POST, "/ui/messages/{id}/unhold", act, moves::unhold);
        self.page(POST, "/ui/messages/{id}/resolve", act, moves::resolve);
        self.page(POST, "/ui/messages/{id}/discard", act, moves::discard);
        self.page(POST, "/ui/messages/{id}/cancel", act, moves::cancel);
        self.page(POST, "/ui/messages/{id}/erase", act, moves::erase);
        self.page(GET, "/ui/messages/{id}/resend", act, resend::ask);
        self.page(POST, "/ui/messages/{id}/resend", act, resend::send);
        self.page(POST, "/ui/messages/{id}/resend/edit", act, resend::edit);
        self.page(GET, "/ui/bulk", act, bulk::preview);
        self.page(POST, "/ui/bulk/run", act, bulk::run);
        self.page(POST, "/ui/schedules/{name}/pause", act, schedules::pause);
        self.page(POST, "/ui/schedules/{name}/resume", act, schedules::resume);
        self.page(POST, "/ui/schedules/{name}/run", act, schedules::run);
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
