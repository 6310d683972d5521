//! What the store adds to an error of the server so that it can be acted on.

use consign_kernel::{Certainty, Claim, Error, Filter, MessageId, prelude::*};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_testkit::ChaosProxy;
pub(crate) use consign_testkit::Login;

use crate::harness::database;

#[tokio::test]
async fn names_the_role_that_a_login_without_rights_lacks() {
    let database = database().await;
    let login = Login::create(&database).await;
    let name = login.name().to_owned();
    let told = |error: Error| {
        assert_eq!(error.code(), "forbidden", "{error:?}");
        error.to_string()
    };
    let options = PostgresOptions::new(login.url());
    let error = told(PostgresStore::connect(&options).await.unwrap_err());
    let none = format!(
        "login {name} needs one of the roles consign_auditor, consign_producer, consign_worker, \
         consign_operator, as in GRANT consign_auditor TO {name}"
    );
    assert!(error.contains(&none), "{error}");
    let status = consign_postgres::status(&PostgresOptions::new(login.url())).await;
    assert!(told(status.unwrap_err()).contains(&none));

    login.grant("consign_producer").await;
    let store = PostgresStore::connect(&options).await.unwrap();
    let queue = "default".parse().unwrap();
    let error = told(store.list(&Filter::default(), None, 1).await.unwrap_err());
    let reader = format!(
        "permission denied for table message; login {name} needs one of the roles \
         consign_auditor, consign_operator, as in GRANT consign_auditor TO {name}"
    );
    assert!(error.contains(&reader), "{error}");
    let error = told(store.explain(MessageId(1)).await.unwrap_err());
    assert!(error.contains("consign_auditor"), "{error}");
    let error = told(store.leases(1).await.unwrap_err());
    assert!(error.contains("consign_auditor"), "{error}");
    let error = told(store.claim(&Claim::new(queue, "w", 1)).await.unwrap_err());
    let worker = format!("needs the role consign_worker: GRANT consign_worker TO {name}");
    assert!(error.contains(&worker), "{error}");
    store.close().await;
    login.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_whose_connection_is_cut_has_not_happened() {
    let database = database().await;
    for read in ["explain", "list", "queues", "doctor"] {
        let proxy = ChaosProxy::start(database.address().await).await;
        let options = PostgresOptions::new(database.url_via(proxy.address()));
        let store = PostgresStore::connect(&options).await.unwrap();
        store.queues(None, 1_000).await.unwrap();
        proxy.swallow_replies();
        let cut = async {
            proxy.reply_withheld().await;
            proxy.cut().await;
        };
        let asked = async {
            match read {
                "explain" => store.explain(MessageId(1)).await.map(drop),
                "list" => store.list(&Filter::default(), None, 1).await.map(drop),
                "queues" => store.queues(None, 1_000).await.map(drop),
                _ => store.doctor().await.map(drop),
            }
        };
        let (answer, ()) = tokio::join!(asked, cut);
        let error = answer.unwrap_err();
        assert!(error.is_retryable(), "{read}: {error:?}");
        assert_eq!(error.certainty(), Certainty::Definite, "{read}: {error:?}");
    }
}
