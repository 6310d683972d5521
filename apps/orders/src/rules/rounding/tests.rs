use proptest::prelude::*;
use rust_decimal::Decimal;

use super::*;

fn amount(text: &str) -> Amount {
    text.parse().unwrap()
}

#[test]
fn quantities_are_rounded_down_to_the_step() {
    let table = [
        ("0.5004", "0.001", "0.5"),
        ("0.3", "0.1", "0.3"),
        ("1.15", "0.05", "1.15"),
        ("0.005", "0.01", "0"),
        ("10000", "0.01", "10000"),
        ("1", "0.3", "0.9"),
        ("7", "3", "6"),
        (
            "99999999999999.999999999999",
            "0.000000000001",
            "99999999999999.999999999999",
        ),
        ("99999999999999.999999999999", "7", "99999999999998"),
    ];
    for (qty, step, expected) in table {
        assert_eq!(
            floor_qty(amount(qty), amount(step)),
            amount(expected),
            "{qty}/{step}"
        );
    }
}

#[test]
fn prices_are_rounded_to_the_tick_by_side() {
    let table = [
        (Side::Buy, "58999.57", "0.1", "58999.5"),
        (Side::Sell, "58999.51", "0.1", "58999.6"),
        (Side::Buy, "58999.5", "0.1", "58999.5"),
        (Side::Sell, "58999.5", "0.1", "58999.5"),
        (Side::Buy, "0.0004", "0.001", "0"),
        (Side::Sell, "0.0004", "0.001", "0.001"),
        (Side::Buy, "146.1299", "0.001", "146.129"),
        (Side::Sell, "146.1291", "0.001", "146.13"),
    ];
    for (side, price, tick, expected) in table {
        let rounded = round_price(amount(price), amount(tick), side);
        assert_eq!(rounded, amount(expected), "{side} {price}/{tick}");
    }
}

fn any_amount() -> impl Strategy<Value = Amount> {
    (1..1_000_000_000_000_i64, 0..10_u32).prop_map(|(number, scale)| Amount::scaled(number, scale))
}

proptest! {
    #[test]
    fn rounding_is_to_the_nearest_multiple_on_the_right_side(
        value in any_amount(), step in any_amount(),
    ) {
        let is_multiple = |of: Amount| (of.decimal() % step.decimal()) == Decimal::ZERO;
        let below = round_price(value, step, Side::Buy);
        let above = round_price(value, step, Side::Sell);
        prop_assert!(below <= value && value <= above, "{below} {value} {above}");
        prop_assert!(value.distance(below) < step.decimal());
        prop_assert!(above.distance(value) < step.decimal());
        prop_assert!(is_multiple(below) && is_multiple(above));
        prop_assert_eq!(floor_qty(value, step), below);
        prop_assert_eq!(round_price(above, step, Side::Sell), above);
    }
}
