//! Rounds quantities to steps and prices to ticks, never to the client's disadvantage: no larger
//! quantity, no worse price.

use crate::{Amount, Side};

/// The largest multiple of `step` that is not above `qty`.
pub fn floor_qty(qty: Amount, step: Amount) -> Amount {
    floor(qty, step)
}

/// A limit price on the grid of `tick`: down for a buy, up for a sell.
pub fn round_price(price: Amount, tick: Amount, side: Side) -> Amount {
    let below = floor(price, tick);
    match side {
        Side::Sell if below != price => below.plus(tick).unwrap_or(price),
        Side::Sell | Side::Buy => below,
    }
}

/// Exact: amounts have few enough digits for an exact remainder. Orders are above zero, where
/// truncating rounds down.
fn floor(amount: Amount, step: Amount) -> Amount {
    let Some(rest) = amount.decimal().checked_rem(step.decimal()) else {
        return amount;
    };
    Amount::new(amount.decimal() - rest).unwrap_or(amount)
}

#[cfg(test)]
mod tests;
