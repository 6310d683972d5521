//! The list of queues: what is in each, and where it delivers to.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::{Counts, QueueName};
use serde::Deserialize;

use super::{
    live::Topic,
    queues::{QueueRow, Queues},
    shell::{Shell, rendered, text},
    words::count,
};
use crate::{extract::Params, gate::access::Caller, problem::Problem, state::AppState};

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    shell: Shell,
    topic: String,
    live: String,
}

#[derive(Template)]
#[template(path = "queues_live.html")]
struct QueuesLive {
    figures: Vec<Figure>,
    rows: Vec<ListedQueue>,
    /// Where the next page is, if there may be one.
    next: Option<String>,
}

/// A number of all queues together.
struct Figure {
    word: &'static str,
    number: String,
    class: &'static str,
}

struct ListedQueue {
    row: QueueRow,
    /// Where a worker of this process delivers to.
    destination: Option<String>,
    /// What sets it apart, in words.
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct QueuesQuery {
    /// Queues whose names come after this one.
    after: Option<QueueName>,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<QueuesQuery>,
) -> Result<Response, Problem> {
    Ok(rendered(&QueuesPage {
        shell: Shell::new("Queues", "/ui/queues", &caller),
        topic: Topic::Queues(query.after.clone()).to_string(),
        live: live(&state, query.after.as_ref()).await?,
    }))
}

/// The part that is kept up to date.
pub(super) async fn live(state: &AppState, after: Option<&QueueName>) -> Result<String, Problem> {
    let queues = Queues::look(state, after).await?;
    let totals = state.store.totals().await?;
    let rows = queues.queues.iter().map(|(queue, counts)| {
        let status = queues.working.iter().find(|it| it.queue == queue.name);
        let mut kind = Vec::new();
        if queue.policy.ordered {
            kind.push("ordered");
        }
        if state.profile(&queue.name).is_some() {
            kind.push("of an app");
        }
        ListedQueue {
            row: queues.row(queue, counts),
            destination: status.map(|it| format!("{} {}", it.sink, it.destination)),
            kind: kind.join(", "),
        }
    });
    text(&QueuesLive {
        figures: figures(totals.queues, totals.counts),
        rows: rows.collect(),
        next: queues.next().map(|next| format!("/ui/queues?after={next}")),
    })
}

fn figures(queues: u64, counts: Counts) -> Vec<Figure> {
    let figure = |word, number, class| Figure {
        word,
        number: count(number),
        class: if number > 0 { class } else { "" },
    };
    vec![
        figure("Queues", queues, ""),
        figure("Ready", counts.ready, ""),
        figure("Scheduled", counts.scheduled, ""),
        figure("Waiting", counts.waiting, ""),
        figure("In flight", counts.leased, ""),
        figure("Held", counts.held, "warn"),
        figure("Dead", counts.dead, "bad"),
    ]
}
