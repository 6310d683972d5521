//! The rules of the logbook over both stores.

mod sqlite {
    use crate::harness::sqlite_fixture;

    crate::cases::suite!(sqlite_fixture);
}

mod postgres {
    use crate::harness::postgres_fixture;

    crate::cases::suite!(postgres_fixture);
}
