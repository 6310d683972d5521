//! What agents call, over a real store.

mod agents;
mod defer;
mod evidence;
mod governance;
mod logbook;
mod query;
mod store;
mod unfit;
