//! Subversion over http, behind a real Apache.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
};

use consign_testkit::eventually;

use super::{
    add, history,
    made::{PASSWORD, TestRepository, USER},
    numbers,
    served::credential,
};
use crate::stage::{SOON, Stage};

/// `htpasswd` for [`PASSWORD`].
const HASH: &str = "{SHA}K19V7k/exfQYX0frZTXYy821v9k=";
const MODULES: [&str; 8] = [
    "mpm_event",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_user",
    "auth_basic",
    "dav",
    "dav_svn",
];

/// A server for one repository. Ends with the test.
struct Apache {
    child: Child,
    url: String,
}

impl Apache {
    async fn start(stage: &Stage, made: &TestRepository) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        // Started by root it runs as another user, who needs read access.
        let folder = stage.folder.path();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("users"), format!("{USER}:{HASH}\n")).unwrap();
        let module = |name: &&str| {
            format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
        };
        let modules: String = MODULES.iter().map(module).collect();
        let (root, repository) = (folder.display(), made.path.display());
        let settings = format!(
            "ServerRoot {root}\nServerName 127.0.0.1\nListen {address}\nPidFile {root}/pid\n\
             DefaultRuntimeDir {root}\nErrorLog {root}/errors\nUser #65534\nGroup #65534\n{modules}\
             <Location /svn>\nDAV svn\nSVNPath {repository}\nAuthType Basic\nAuthName consign\n\
             AuthUserFile {root}/users\nRequire valid-user\n</Location>\n"
        );
        let file = folder.join("apache.conf");
        fs::write(&file, settings).unwrap();
        let mut apache = Command::new("/usr/sbin/apache2");
        apache.arg("-X").arg("-f").arg(&file);
        apache.stdout(Stdio::null()).stderr(Stdio::inherit());
        let child = apache.spawn().expect("apache2, see scripts/require");
        eventually("a web server", SOON, async || {
            TcpStream::connect(address).is_ok()
        })
        .await;
        let url = format!("http://{address}/svn");
        Self { child, url }
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn a_repository_behind_a_web_server_is_read() {
    let mut stage = Stage::new().await;
    let made = TestRepository::with(stage.path("r"), &history(3));
    let apache = Apache::start(&stage, &made).await;
    let repo = add(&stage, &apache.url).await;
    for credential in [None, credential(USER, "wr0ng")] {
        stage.options.credential = credential;
        let refused = stage.sync(&repo).await.unwrap_err();
        assert_eq!(refused.code(), "SCM_AUTH_FAILED", "{refused}");
        assert!(!refused.to_string().contains("wr0ng"), "{refused}");
    }
    stage.options.credential = credential(USER, PASSWORD);
    assert_eq!(stage.sync(&repo).await.unwrap().written, 3);
    assert_eq!(numbers(&stage.changes(&repo).await), [1, 2, 3]);
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let run = stage.synchronizer(&repo, &*source, &consign_scm::NoHooks);
    assert_eq!(run.materialize(None, None).await.unwrap().fetched, 3);

    let url = apache.url.replace("/svn", "/other");
    let nowhere = add(&stage, &url).await;
    let missing = stage.sync(&nowhere).await.unwrap_err();
    assert_eq!(missing.code(), "SCM_NOT_FOUND", "{missing}");
    drop(apache);
    let away = stage.sync(&repo).await.unwrap_err();
    assert_eq!(away.code(), "SCM_UNREACHABLE", "{away}");
}
