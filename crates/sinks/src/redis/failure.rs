//! What an error of Redis or of the way to it leads to.

use consign_worker::Verdict;
use redis::{ErrorKind, RedisError};

use crate::broker::{in_doubt, not_sent};

/// The verdict on an error while connecting: nothing was sent.
pub(super) fn before_command(error: &RedisError) -> Verdict {
    match redis_error(error) {
        Some(refusal) => refusal,
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            not_sent("unauthorized", "Redis refuses the user or the password")
        }
        None => not_sent("connect_failed", format!("could not connect: {error}")),
    }
}

/// The verdict on an error after the command was sent.
pub(super) fn after_command(error: &RedisError) -> Verdict {
    redis_error(error).unwrap_or_else(|| {
        let detail = format!("the connection broke before Redis answered: {error}");
        in_doubt("connection_broken", detail)
    })
}

/// What Redis itself answered. An error of its own means that nothing was added.
fn redis_error(error: &RedisError) -> Option<Verdict> {
    let code = error.code()?;
    let words = error.detail().unwrap_or_default();
    let detail = match code {
        "WRONGTYPE" => "the key of the stream holds another Redis type".to_owned(),
        "MOVED" | "ASK" => {
            format!("this is a node of a cluster that does not hold the stream: {words}")
        }
        _ => format!("Redis answered: {code} {words}"),
    };
    Some(match code {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => not_sent("unauthorized", detail),
        _ => not_sent(format!("redis_{}", code.to_lowercase()), detail),
    })
}

#[cfg(test)]
mod tests {
    use consign_kernel::Outcome;

    use super::*;

    #[test]
    fn only_a_lost_answer_is_in_doubt() {
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(after_command(&lost).outcome, Outcome::Uncertain);
        assert_eq!(before_command(&lost).outcome, Outcome::Retry);
    }
}
