//! What a claim takes.

/// Those of the due batches, oldest first, that a claim may take from: the oldest alone if it came
/// back from an expiry, otherwise all that did not.
pub fn claimable<B>(mut due: Vec<B>, is_isolated: impl Fn(&B) -> bool) -> Vec<B> {
    if due.first().is_some_and(&is_isolated) {
        due.truncate(1);
    } else {
        due.retain(|batch| !is_isolated(batch));
    }
    due
}

/// How many messages of these sizes fit, one after the other, into the bytes a claim has left. The
/// first message of a claim always does.
pub fn fitting(
    sizes: impl IntoIterator<Item = u64>,
    bytes_left: u64,
    is_first_of_claim: bool,
) -> usize {
    let mut left = bytes_left;
    let fits = sizes.into_iter().enumerate().take_while(|(index, size)| {
        let rest = left.checked_sub(*size);
        left = rest.unwrap_or(0);
        rest.is_some() || (is_first_of_claim && *index == 0)
    });
    fits.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_isolated_batch_is_taken_alone_when_it_is_the_oldest_and_never_otherwise() {
        let (isolated, other) = (true, false);
        for (due, taken) in [
            (vec![], vec![]),
            (vec![isolated, other], vec![isolated]),
            (vec![isolated, isolated], vec![isolated]),
            (vec![other, isolated, other], vec![other, other]),
        ] {
            assert_eq!(claimable(due, |batch| *batch), taken);
        }
    }

    #[test]
    fn messages_fit_until_the_bytes_are_used_up_but_the_first_always_does() {
        for (sizes, left, is_first, fits) in [
            (vec![3, 3, 3], 9, true, 3),
            (vec![3, 3, 3], 8, true, 2),
            (vec![9, 1], 8, true, 1),
            (vec![9, 1], 8, false, 0),
            (vec![], 8, true, 0),
        ] {
            assert_eq!(fitting(sizes, left, is_first), fits);
        }
    }
}
