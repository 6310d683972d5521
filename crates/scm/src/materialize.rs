//! Fetching the changes themselves.

mod writer;

pub use self::writer::PatchWriter;
