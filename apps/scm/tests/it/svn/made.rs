//! Subversion repositories, made by `svnadmin load` from histories that a test writes down.

use std::{
    io::Write,
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
};

/// What a revision does.
#[derive(Clone)]
pub(crate) enum Node {
    Folder(String),
    File(String, Vec<u8>),
    Change(String, Vec<u8>),
    /// Of a file: name and value.
    Property(String, &'static str, &'static str),
    Copy(&'static str, u64, &'static str),
    Delete(&'static str),
}

/// A revision to make.
#[derive(Clone)]
pub(crate) struct Revision {
    pub(crate) author: Option<&'static str>,
    pub(crate) date: Option<&'static str>,
    pub(crate) message: Option<Vec<u8>>,
    pub(crate) nodes: Vec<Node>,
}

/// With a fixed author and time.
pub(crate) fn revision(message: &str, nodes: Vec<Node>) -> Revision {
    Revision {
        author: Some("ann"),
        date: Some("2026-01-02T03:04:05.000006Z"),
        message: Some(message.into()),
        nodes,
    }
}

pub(crate) fn folder(path: &str) -> Node {
    Node::Folder(path.to_owned())
}

pub(crate) fn file(path: &str, text: &str) -> Node {
    Node::File(path.to_owned(), text.into())
}

pub(crate) fn change(path: &str, text: &str) -> Node {
    Node::Change(path.to_owned(), text.into())
}

/// A repository on disk.
pub(crate) struct TestRepository {
    pub(crate) path: PathBuf,
}

impl TestRepository {
    pub(crate) fn new(path: PathBuf) -> Self {
        run(Command::new("svnadmin").arg("create").arg(&path), b"");
        Self { path }
    }

    pub(crate) fn with(path: PathBuf, revisions: &[Revision]) -> Self {
        let made = Self::new(path);
        made.load(revisions);
        made
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.path.display())
    }

    /// Adds revisions.
    pub(crate) fn load(&self, revisions: &[Revision]) {
        let youngest = run(Command::new("svnlook").arg("youngest").arg(&self.path), b"");
        let first = youngest.trim().parse::<u64>().unwrap() + 1;
        let mut dump = b"SVN-fs-dump-format-version: 2\n\n".to_vec();
        for (number, revision) in (first..).zip(revisions) {
            revision.write(number, &mut dump);
        }
        let mut load = Command::new("svnadmin");
        load.args(["load", "-q", "--ignore-uuid", "--bypass-prop-validation"]);
        run(load.arg(&self.path), &dump);
    }
}

impl TestRepository {
    /// From now on the server requires a password.
    pub(crate) fn lock(&self) {
        let settings = "[general]\nanon-access = none\nauth-access = read\npassword-db = passwd\n";
        std::fs::write(self.path.join("conf/svnserve.conf"), settings).unwrap();
        let users = format!("[users]\n{USER} = {PASSWORD}\n");
        std::fs::write(self.path.join("conf/passwd"), users).unwrap();
    }
}

impl Revision {
    fn write(&self, number: u64, dump: &mut Vec<u8>) {
        let mut properties = Vec::new();
        let message = [
            ("svn:author", self.author.map(str::as_bytes)),
            ("svn:date", self.date.map(str::as_bytes)),
            ("svn:log", self.message.as_deref()),
        ];
        for (name, value) in message {
            if let Some(value) = value {
                property(&mut properties, name, value);
            }
        }
        properties.extend_from_slice(b"PROPS-END\n");
        let length = properties.len();
        let header = format!(
            "Revision-number: {number}\nProp-content-length: {length}\nContent-length: {length}\n\n"
        );
        dump.extend_from_slice(header.as_bytes());
        dump.extend_from_slice(&properties);
        dump.push(b'\n');
        for node in &self.nodes {
            node.write(dump);
        }
    }
}

impl Node {
    fn write(&self, dump: &mut Vec<u8>) {
        match self {
            Self::Folder(path) => part(dump, path, "dir", "add", None, None),
            Self::File(path, text) => part(dump, path, "file", "add", None, Some(text)),
            Self::Change(path, text) => part(dump, path, "file", "change", None, Some(text)),
            Self::Property(path, name, value) => {
                part(dump, path, "file", "change", Some((name, value)), None);
            }
            Self::Copy(from, revision, path) => {
                let header = format!(
                    "Node-path: {path}\nNode-action: add\nNode-copyfrom-rev: {revision}\n\
                     Node-copyfrom-path: {from}\n\n\n"
                );
                dump.extend_from_slice(header.as_bytes());
            }
            Self::Delete(path) => {
                let header = format!("Node-path: {path}\nNode-action: delete\n\n\n");
                dump.extend_from_slice(header.as_bytes());
            }
        }
    }
}

fn part(
    dump: &mut Vec<u8>,
    path: &str,
    kind: &str,
    action: &str,
    message: Option<(&str, &str)>,
    text: Option<&Vec<u8>>,
) {
    let mut properties = Vec::new();
    if let Some((name, value)) = message {
        property(&mut properties, name, value.as_bytes());
    }
    properties.extend_from_slice(b"PROPS-END\n");
    let has_properties = message.is_some() || action == "add";
    let mut header = format!("Node-path: {path}\nNode-kind: {kind}\nNode-action: {action}\n");
    let mut length = 0;
    if has_properties {
        length += properties.len();
        header += &format!("Prop-content-length: {}\n", properties.len());
    }
    if let Some(text) = text {
        length += text.len();
        header += &format!("Text-content-length: {}\n", text.len());
    }
    header += &format!("Content-length: {length}\n\n");
    dump.extend_from_slice(header.as_bytes());
    if has_properties {
        dump.extend_from_slice(&properties);
    }
    dump.extend_from_slice(text.map_or(b"", Vec::as_slice));
    dump.extend_from_slice(b"\n\n");
}

fn property(to: &mut Vec<u8>, name: &str, value: &[u8]) {
    let (names, values) = (name.len(), value.len());
    to.extend_from_slice(format!("K {names}\n{name}\nV {values}\n").as_bytes());
    to.extend_from_slice(value);
    to.push(b'\n');
}

fn run(command: &mut Command, input: &[u8]) -> String {
    command
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .expect("subversion: run scripts/require subversion");
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A real `svnserve` per connection, with a password.
pub(crate) struct SvnServer {
    address: SocketAddr,
    /// Connections so far.
    pub(crate) connections: Arc<AtomicU32>,
    /// How many of the next connections are closed as soon as they are made.
    pub(crate) drops: Arc<AtomicU32>,
    /// Whether connections are held open without a word.
    pub(crate) is_silent: Arc<AtomicBool>,
    /// After so many connections another repository is served.
    pub(crate) next: Arc<Mutex<Option<(u32, PathBuf)>>>,
}

pub(crate) const USER: &str = "ann";
pub(crate) const PASSWORD: &str = "c0rrect-horse";

impl SvnServer {
    pub(crate) fn new(made: &TestRepository) -> Self {
        made.lock();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let served = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            drops: Arc::default(),
            is_silent: Arc::default(),
            next: Arc::default(),
        };
        let (connections, drops) = (served.connections.clone(), served.drops.clone());
        let (is_silent, root) = (served.is_silent.clone(), made.path.clone());
        let next = served.next.clone();
        // Ends with the process of the test.
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let count = connections.fetch_add(1, Ordering::SeqCst);
                if is_silent.load(Ordering::SeqCst) {
                    silent.push(stream);
                    continue;
                }
                let less = |left: u32| left.checked_sub(1);
                if drops
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                    .is_ok()
                {
                    continue;
                }
                let next = next.lock().unwrap().clone();
                let next = next.filter(|(after, _)| count >= *after);
                let root = next.map_or(root.clone(), |(_, next)| next);
                serve(&root, stream.try_clone().unwrap().into(), stream.into());
            }
        });
        served
    }

    pub(crate) fn url(&self) -> String {
        format!("svn://{}", self.address)
    }
}

fn serve(root: &Path, input: OwnedFd, output: OwnedFd) {
    let mut server = Command::new("svnserve");
    server.args(["--inetd", "--root"]).arg(root);
    let server = server.stdin(input).stdout(output).stderr(Stdio::null());
    let mut child = server.spawn().expect("svnserve");
    thread::spawn(move || child.wait());
}
