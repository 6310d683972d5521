//! The client against a real OpenMemory, hazards of such servers included, and against honest fakes of
//! the dialects that cannot be installed.

mod fake;
mod hazards;
mod items;
mod other_dialects;
mod outages;
mod replaced;
mod starved;

use std::time::Duration;

use consign_memory::{MemoryOptions, NewMemory, OpenMemory, Search, Secret};
use consign_testkit::OpenMemory as Server;

const BUDGET: Duration = Duration::from_secs(10);

fn options(url: &str) -> MemoryOptions {
    MemoryOptions {
        openmemory_base_url: Some(url.to_owned()),
        openmemory_api_key: Some(Secret::new(Server::KEY)),
        ..MemoryOptions::default()
    }
}

fn client(url: &str) -> OpenMemory {
    OpenMemory::new(&options(url)).unwrap()
}

fn memory(space: &str, text: &str) -> NewMemory {
    NewMemory {
        target_space: space.into(),
        payload_md: text.into(),
        ..NewMemory::default()
    }
}

fn search(query: &str, spaces: &[&str]) -> Search {
    Search {
        query: query.into(),
        spaces: spaces.iter().map(|&space| space.to_owned()).collect(),
        top_k: 10,
        ..Search::default()
    }
}
