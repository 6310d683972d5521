//! The stylesheet and the script, under names that change with their content.

use std::sync::LazyLock;

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use consign_kernel::hex;
use ring::digest::{SHA256, digest};

use crate::{
    extract::InPath,
    problem::{Problem, codes},
};

pub(super) struct Asset {
    pub(super) path: String,
    kind: &'static str,
    text: &'static str,
}

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../../static/dashboard.css");
    Asset::new("css", "text/css; charset=utf-8", text)
});

pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../../static/dashboard.js");
    Asset::new("js", "text/javascript; charset=utf-8", text)
});

impl Asset {
    fn new(ending: &str, kind: &'static str, text: &'static str) -> Self {
        let digest = digest(&SHA256, text.as_bytes());
        let hash = hex(&digest.as_ref()[..8]);
        Self {
            path: format!("/ui/static/dashboard.{hash}.{ending}"),
            kind,
            text,
        }
    }
}

pub(super) async fn serve(InPath(file): InPath<String>) -> Result<Response, Problem> {
    let path = format!("/ui/static/{file}");
    let assets = [&*STYLE, &*SCRIPT];
    let found = assets.into_iter().find(|asset| asset.path == path);
    let asset = found
        .ok_or_else(|| Problem::new(codes::NOT_FOUND, format!("file {file:?} does not exist")))?;
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, asset.text).into_response())
}
