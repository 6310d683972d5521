//! Finds cases by name and runs them, each over a fresh store.

use std::{fmt, pin::Pin};

use crate::{Factory, Harness};

type CaseFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One rule that every store obeys.
#[derive(Clone, Copy)]
pub struct Case {
    /// The rule in words.
    pub name: &'static str,
    /// The operation or idea it belongs to.
    pub topic: &'static str,
    examine: for<'a> fn(&'a dyn Harness) -> CaseFuture<'a>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.topic, self.name)
    }
}

macro_rules! list {
    (($part:ident) $($topic:ident: $($case:ident)*;)*) => {
        vec![$($(Case {
            name: stringify!($case),
            topic: stringify!($topic),
            examine: |harness| Box::pin(crate::$part::$topic::$case(harness)),
        }),*),*]
    };
}

/// Every case, by topic.
pub fn cases() -> Vec<Case> {
    crate::each_case!([list], (cases))
}

/// Runs one case over a fresh store; panics with what was expected if the store breaks the rule.
///
/// Whatever the case did, the store's own `doctor` must find nothing wrong afterwards.
pub async fn run(name: &str, factory: &dyn Factory) {
    let case = cases()
        .into_iter()
        .find(|case| case.name == name)
        .unwrap_or_else(|| panic!("there is no case {name:?}"));
    let harness = factory.fresh().await;
    (case.examine)(&*harness).await;
    let findings = harness
        .store()
        .doctor()
        .await
        .expect("doctor answers after the case");
    assert!(
        findings.is_empty(),
        "doctor found after {case:?}: {findings:#?}"
    );
}

/// Runs every case, one after the other.
pub async fn exercise(factory: &dyn Factory) {
    for case in cases() {
        run(case.name, factory).await;
    }
}

/// One test per case over the store a factory makes.
///
/// ```text
/// consign_conformance::suite!(ReferenceFactory::default());
/// ```
#[macro_export]
macro_rules! suite {
    ($factory:expr $(,)?) => {
        $crate::each_case!([$crate::__tests], ($factory));
    };
}

/// What `suite!` writes for each case.
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    (($factory:expr) $($topic:ident: $($case:ident)*;)*) => {
        $($(
            #[::tokio::test(flavor = "multi_thread")]
            async fn $case() {
                $crate::run(stringify!($case), &$factory).await;
            }
        )*)*
    };
}
