//! Quantities in steps, prices in ticks. Never in the client's disfavour: nobody buys more, pays
//! more or sells for less than was asked.

use crate::{Amount, Side};

/// The largest multiple of `step` that is not above `qty`.
pub fn floor_qty(qty: Amount, step: Amount) -> Amount {
    floor(qty, step)
}

/// A limit price on the grid of `tick`: down for who buys, up for who sells.
pub fn round_price(price: Amount, tick: Amount, side: Side) -> Amount {
    let below = floor(price, tick);
    match side {
        Side::Sell if below != price => below.plus(tick).unwrap_or(price),
        Side::Sell | Side::Buy => below,
    }
}

/// Exact: amounts have few enough digits that a remainder never loses one. Orders are above zero,
/// where cutting off is rounding down.
fn floor(amount: Amount, step: Amount) -> Amount {
    let Some(rest) = amount.decimal().checked_rem(step.decimal()) else {
        return amount;
    };
    Amount::new(amount.decimal() - rest).unwrap_or(amount)
}

#[cfg(test)]
mod tests;
