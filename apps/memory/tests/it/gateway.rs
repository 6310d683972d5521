//! What agents call, over a real store.

mod agents;
mod backends;
mod change;
mod defer;
mod evidence;
mod governance;
mod logbook;
mod nul;
mod query;
mod read;
mod secrets;
mod store;
mod unfit;
mod write_lock;
