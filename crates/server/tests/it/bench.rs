//! Which stores a test runs on.

pub(crate) use consign_server::testing::*;

/// Runs each test on the reference store and on SQLite.
macro_rules! on_stores {
    ($($test:ident),+ $(,)?) => {
        mod reference {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::bench::Bench::reference().await).await;
            })+
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::bench::Bench::sqlite().await).await;
            })+
        }
    };
}
pub(crate) use on_stores;
