//! Tables of what is said and what comes of it.
