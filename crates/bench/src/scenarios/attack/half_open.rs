//! Connections that send half a request line and then nothing.

use anyhow::{Context, Result};
use async_trait::async_trait;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::{Attack, Target};

pub(super) struct HalfOpen {
    name: &'static str,
    connections: usize,
}

/// More than may have requests at once.
pub(super) const HALF_OPEN: HalfOpen = HalfOpen {
    name: "half-open",
    connections: 2_100,
};

/// More than may be open, so that one is closed for the next all the time.
pub(super) const HALF_OPEN_FULL: HalfOpen = HalfOpen {
    name: "half-open-full",
    connections: 3_500,
};

#[async_trait]
impl Attack for HalfOpen {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let limit = Rlimit {
            current: maximum,
            maximum,
        };
        setrlimit(Resource::Nofile, limit).context("allow the attacker enough connections")?;
        let mut opened = JoinSet::new();
        for _ in 0..self.connections {
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
