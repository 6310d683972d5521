//! Failures of this process rather than of a sink: no file descriptor is left, or no memory.

use std::{error::Error, fs::File, io};

/// `ENFILE` and `EMFILE`, the same on every Unix; the standard library has no name for them.
const FILES_USED_UP: [i32; 2] = [23, 24];

/// Whether an error, or one it was caused by, shows that this process or machine lacks file
/// descriptors or memory.
pub fn is_local(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            let is_inside = error.get_ref().is_some_and(|inside| is_local(inside));
            if lacks_resources(error) || is_inside {
                return true;
            }
        }
        next = error.source();
    }
    false
}

/// Whether no file can be opened right now. For failures without an error code, such as those
/// of name resolution.
pub(crate) fn files_are_used_up() -> bool {
    File::open("/dev/null").is_err_and(|error| lacks_resources(&error))
}

fn lacks_resources(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code.is_some_and(|code| FILES_USED_UP.contains(&code))
        || error.kind() == io::ErrorKind::OutOfMemory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_cause_however_deep() {
        for (code, expected) in [(12, true), (23, true), (24, true), (111, false)] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(is_local(&error), expected, "{error}");
            let wrapped = io::Error::other(io::Error::from_raw_os_error(code));
            assert_eq!(is_local(&wrapped), expected, "{wrapped}");
        }
        assert!(!files_are_used_up());
    }
}
