use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::daemon::{Daemon, START_ATTEMPTS_MAX, free_address, program};

/// A real RabbitMQ, killed when this value is dropped. It takes several seconds to start.
///
/// The user `guest` with the password `guest` may do everything.
#[derive(Debug)]
pub struct RabbitmqServer {
    broker: Daemon,
    /// Erlang's port mapper. Our own, because one that RabbitMQ starts would outlive it.
    mapper: Daemon,
    ports: Ports,
    /// Holds the data, the log, and the home with Erlang's cookie; removed with this value.
    directory: TempDir,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    clients: SocketAddr,
    tls: SocketAddr,
    mapper: SocketAddr,
    nodes: SocketAddr,
}

impl RabbitmqServer {
    /// Starts an empty server.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts an empty server with more lines in its configuration: `max_message_size = 65536`.
    ///
    /// With `ssl_options` it serves TLS too, at [`tls_address`](Self::tls_address).
    pub async fn start_with(configuration: &str) -> Self {
        let mut log = String::new();
        for _ in 0..START_ATTEMPTS_MAX {
            match Self::try_start(configuration).await {
                Ok(server) => return server,
                Err(output) => log = output,
            }
        }
        panic!("rabbitmq-server did not start; its output:\n{log}");
    }

    async fn try_start(configuration: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().expect("create a directory for rabbitmq");
        let ports = Ports {
            clients: free_address(),
            tls: free_address(),
            mapper: free_address(),
            nodes: free_address(),
        };
        configure(&directory, ports, configuration);
        let mut mapper = spawn_mapper(&directory, ports);
        mapper.accepts(ports.mapper).await?;
        let mut server = Self {
            broker: spawn_broker(&directory, ports),
            mapper,
            ports,
            directory,
        };
        server.until_ready().await?;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.ports.clients
    }

    /// Where it listens with TLS, if it does.
    pub fn tls_address(&self) -> SocketAddr {
        self.ports.tls
    }

    /// Its address as clients write it.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}/%2f", self.ports.clients)
    }

    /// The process ids of all that was started: the broker and Erlang's port mapper.
    pub fn ids(&self) -> [u32; 2] {
        [self.broker.id(), self.mapper.id()]
    }

    /// Kills it (SIGKILL) and returns when it is gone.
    pub fn kill9(&mut self) {
        self.broker.kill9();
    }

    /// Stops it (SIGTERM) and returns when it has ended.
    pub async fn terminate(&mut self) {
        self.broker.terminate().await;
    }

    /// Starts it again, after it was ended, on the same port and with the same queues.
    pub async fn start_again(&mut self) {
        self.broker = spawn_broker(&self.directory, self.ports);
        if let Err(log) = self.until_ready().await {
            panic!("rabbitmq-server did not return; its output:\n{log}");
        }
    }

    async fn until_ready(&mut self) -> Result<(), String> {
        self.broker.accepts(self.ports.clients).await?;
        let written = fs::read_to_string(pid_file(&self.directory)).unwrap_or_default();
        assert_eq!(
            written.trim(),
            self.broker.id().to_string(),
            "rabbitmq's script runs the broker in its own place, so that it can be killed"
        );
        Ok(())
    }
}

fn configure(directory: &TempDir, ports: Ports, more: &str) {
    let tls = if more.contains("ssl_options") {
        format!("listeners.ssl.1 = {}", ports.tls)
    } else {
        String::new()
    };
    let configuration = format!(
        "listeners.tcp.1 = {}\n\
         log.console = true\n\
         log.file = false\n\
         {tls}\n\
         {more}\n",
        ports.clients
    );
    let write = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).expect("write the configuration of rabbitmq");
    };
    write("rabbitmq.conf", &configuration);
    write("plugins", "[].\n");
    fs::create_dir(directory.path().join("home")).expect("create a home for rabbitmq");
}

fn spawn_mapper(directory: &TempDir, ports: Ports) -> Daemon {
    let mut command = Command::new(program("epmd"));
    command
        .args(["-address", &ports.mapper.ip().to_string()])
        .args(["-port", &ports.mapper.port().to_string()]);
    Daemon::spawn("epmd", command, &directory.path().join("mapper.log"))
}

fn spawn_broker(directory: &TempDir, ports: Ports) -> Daemon {
    let path = |name: &str| directory.path().join(name);
    let mut command = Command::new(script());
    command
        .env("HOME", path("home"))
        .env("ERL_EPMD_PORT", ports.mapper.port().to_string())
        .env("ERL_EPMD_ADDRESS", ports.mapper.ip().to_string())
        .env(
            "RABBITMQ_NODENAME",
            format!("test{}@localhost", ports.clients.port()),
        )
        .env("RABBITMQ_DIST_PORT", ports.nodes.port().to_string())
        .env("RABBITMQ_MNESIA_BASE", path("data"))
        .env("RABBITMQ_LOG_BASE", path("logs"))
        .env("RABBITMQ_PID_FILE", pid_file(directory))
        .env("RABBITMQ_CONFIG_FILE", path("rabbitmq.conf"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", path("plugins"))
        // Settings of the machine's own RabbitMQ must not reach this one.
        .env("RABBITMQ_CONF_ENV_FILE", path("none"))
        .env("RABBITMQ_ADVANCED_CONFIG_FILE", path("none"))
        .env_remove("NOTIFY_SOCKET")
        // The script then becomes the broker instead of waiting for it.
        .env("detached", "yes");
    Daemon::spawn("rabbitmq-server", command, &path("log"))
}

fn pid_file(directory: &TempDir) -> PathBuf {
    directory.path().join("pid")
}

/// Debian's command insists on a user of its own; the script behind it does not.
fn script() -> PathBuf {
    let behind = PathBuf::from("/usr/lib/rabbitmq/bin/rabbitmq-server");
    if behind.is_file() {
        behind
    } else {
        program("rabbitmq-server")
    }
}
