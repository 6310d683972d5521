//! `clients/vectors.json`: the server and the SQL functions answer what the clients expect.

use std::{collections::BTreeMap, net::SocketAddr};

use consign_receiver::{CREATE_TABLE, RECORD, Receipt};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sqlx::{AssertSqlSafe, Column, Connection, PgConnection, Row, TypeInfo, postgres::PgRow};

use crate::{
    http,
    service::Service,
    support::{Consign, migrated_database},
};

const FILE: &str = include_str!("../../../../clients/vectors.json");
/// What differs from run to run, beside tokens and what ends in `_at`.
const TIMES: [&str; 2] = ["created_at_us", "expires_at"];

#[derive(Deserialize)]
struct Vectors {
    statements: BTreeMap<String, String>,
    errors: Vec<ErrorVector>,
    receipts: Vec<ReceiptVector>,
    calls: Vec<CallVector>,
}

#[derive(Deserialize)]
struct ErrorVector {
    code: String,
    sqlstate: String,
    status: u16,
}

#[derive(Deserialize)]
struct ReceiptVector {
    id: String,
    fence: i64,
    receipt: String,
}

#[derive(Deserialize)]
struct CallVector {
    name: String,
    error: Option<String>,
    sql: SqlVector,
    http: HttpVector,
}

#[derive(Deserialize)]
struct SqlVector {
    /// One of `statements`.
    statement: String,
    parameters: Vec<Option<String>>,
    rows: Option<Vec<Map<String, Value>>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct HttpVector {
    method: String,
    path: String,
    body: String,
    status: u16,
    answer: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(FILE).unwrap()
}

/// The tokens of the vectors and those of this run.
#[derive(Default)]
struct Tokens(Vec<(String, String)>);

impl Tokens {
    /// Learns the token of a claim.
    fn learn(&mut self, vector: Option<&Value>, found: Option<&Value>) {
        if let (Some(vector), Some(found)) = (vector, found) {
            let pair = (vector.as_str().unwrap(), found.as_str().unwrap());
            self.0.push((pair.0.to_owned(), pair.1.to_owned()));
        }
    }

    fn of_this_run(&self, text: &str) -> String {
        let replace =
            |text: String, (vector, found): &(String, String)| text.replace(vector, found);
        self.0.iter().fold(text.to_owned(), replace)
    }

    fn of_the_vectors(&self, text: &str) -> String {
        let replace =
            |text: String, (vector, found): &(String, String)| text.replace(found, vector);
        self.0.iter().fold(text.to_owned(), replace)
    }
}

#[tokio::test]
async fn the_sql_functions_answer_as_the_vectors() {
    let database = migrated_database().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let vectors = vectors();
    let mut tokens = Tokens::default();
    for vector in vectors.calls {
        let statement = vectors.statements[&vector.sql.statement].clone();
        let mut query = sqlx::query(AssertSqlSafe(statement));
        for parameter in &vector.sql.parameters {
            query = query.bind(parameter.as_ref().map(|text| tokens.of_this_run(text)));
        }
        let found = match query.fetch_all(&mut connection).await {
            Ok(rows) => {
                let rows: Vec<_> = rows.iter().map(fields).collect();
                let expected = vector.sql.rows.as_ref().and_then(|rows| rows.first());
                let token = |row: &Map<String, Value>| row.get("token").cloned();
                let (expected, first) = (expected.and_then(token), rows.first().and_then(token));
                tokens.learn(expected.as_ref(), first.as_ref());
                json!({ "rows": rows })
            }
            Err(error) => {
                let error = error.into_database_error().unwrap();
                let state = error.code().unwrap().into_owned();
                let known = vectors.errors.iter().find(|it| it.sqlstate == state);
                let code = known.map(|it| it.code.clone());
                assert_eq!(code, vector.error, "{}", vector.name);
                json!({ "error": { "sqlstate": state } })
            }
        };
        let expected = match (vector.sql.rows, vector.sql.error) {
            (Some(rows), None) => json!({ "rows": rows }),
            (_, error) => json!({ "error": error }),
        };
        let found = tokens.of_the_vectors(&without_times(found).to_string());
        let expected = without_times(expected).to_string();
        assert_eq!(found, expected, "{}", vector.name);
    }
}

#[tokio::test]
async fn the_server_answers_as_the_vectors() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    let service = Service::serve(&consign).await;
    let mut tokens = Tokens::default();
    for vector in vectors().calls {
        let HttpVector { path, body, .. } = &vector.http;
        assert_eq!(vector.http.method, "POST");
        let (path, body) = (tokens.of_this_run(path), tokens.of_this_run(body));
        let found = post(service.address(), &path, &body).await;
        if path == "/v1/claims" && found.status == 200 {
            let expected: Value = serde_json::from_str(&vector.http.answer).unwrap();
            tokens.learn(expected.get("token"), found.json().get("token"));
        }
        let expected = (vector.http.status, masked(&vector.http.answer));
        let found = (found.status, masked(&tokens.of_the_vectors(&found.body)));
        assert_eq!(found, expected, "{}", vector.name);
    }
    for error in vectors().errors {
        let problem = http::get(service.address(), &format!("/problems/{}", error.code)).await;
        assert_eq!(problem.json()["status"], error.status, "{}", error.code);
    }
    service.stop().await;
}

#[tokio::test]
async fn receivers_record_as_the_vectors() {
    let database = migrated_database().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    sqlx::query(CREATE_TABLE)
        .execute(&mut connection)
        .await
        .unwrap();
    for vector in vectors().receipts {
        let query = sqlx::query_scalar(RECORD).bind(&vector.id);
        let times: Option<i64> = query
            .bind(vector.fence)
            .fetch_optional(&mut connection)
            .await
            .unwrap();
        let found = format!("{:?}", Receipt::from_times(times)).to_lowercase();
        assert_eq!(found, vector.receipt, "{} {}", vector.id, vector.fence);
    }
}

/// A request; without a type where it has no body, as the clients send it.
async fn post(at: SocketAddr, path: &str, body: &str) -> http::Answer {
    if body.is_empty() {
        let head = format!("POST {path} HTTP/1.1\r\ncontent-length: 0\r\n");
        return http::send(at, &head, "").await.unwrap();
    }
    http::post(at, path, body).await
}

/// A row as the drivers of the clients return it.
fn fields(row: &PgRow) -> Map<String, Value> {
    let value = |at: usize, kind: &str| match kind {
        "INT4" => json!(row.get::<Option<i32>, _>(at)),
        "BOOL" => json!(row.get::<Option<bool>, _>(at)),
        _ => json!(row.get::<Option<String>, _>(at)),
    };
    let columns = row.columns().iter();
    let columns = columns.map(|it| (it.name().to_owned(), it.ordinal(), it.type_info().name()));
    columns
        .map(|(name, at, kind)| (name, value(at, kind)))
        .collect()
}

fn without_times(mut answer: Value) -> Value {
    for row in answer["rows"].as_array_mut().into_iter().flatten() {
        for name in TIMES {
            row.as_object_mut().unwrap().remove(name);
        }
    }
    answer
}

/// An answer to the byte, but for its times.
fn masked(answer: &str) -> String {
    let mut parts = answer.split("_at\":\"");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once('"').unwrap().1;
        masked.push_str("_at\":\"time\"");
        masked.push_str(rest);
    }
    masked
}
