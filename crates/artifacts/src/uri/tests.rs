use super::*;

const S: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// `S` and `S^` are the hash in lower and upper case.
fn with_hash(text: &str) -> String {
    text.replace("S^", &S.to_uppercase())
        .replace("/S", &format!("/{S}"))
}

#[track_caller]
fn check(uri: &str, expected: (&str, &str, UriType, &str)) {
    let (scheme, path, uri_type, netloc) = expected;
    let parsed = parse_uri(&with_hash(uri));
    assert_eq!(parsed.scheme.as_deref().unwrap_or("-"), scheme, "{uri}");
    assert_eq!(parsed.path, with_hash(path), "{uri}");
    assert_eq!(parsed.uri_type, uri_type, "{uri}");
    assert_eq!(parsed.netloc.as_deref().unwrap_or("-"), netloc, "{uri}");
    let is_local = matches!(
        uri_type,
        UriType::File | UriType::Artifact | UriType::Memory
    );
    assert_eq!(
        (parsed.is_local(), parsed.is_remote()),
        (is_local, !is_local),
        "{uri}"
    );
    assert_eq!(parsed.raw, with_hash(uri).trim());
}

#[test]
fn physical_uris_are_parsed() {
    use UriType::{File, Ftp, Gs, Http, S3};
    check(
        "file:///home/user/file.txt",
        ("file", "/home/user/file.txt", File, "-"),
    );
    check(
        "file:///C:/Users/test/file.txt",
        ("file", "C:/Users/test/file.txt", File, "-"),
    );
    check(
        "  file:///path/to/file.txt  ",
        ("file", "/path/to/file.txt", File, "-"),
    );
    let web = "http://example.com/path/file.txt";
    check(web, ("http", "/path/file.txt", Http, "example.com"));
    check("HTTPS://Ex.com/A", ("https", "/A", Http, "Ex.com"));
    let object = "s3://my-bucket/path/to/object.txt";
    check(
        object,
        ("s3", "my-bucket/path/to/object.txt", S3, "my-bucket"),
    );
    check("s3://bucket", ("s3", "bucket", S3, "bucket"));
    check(
        "s3://bucket/key?versionId=1",
        ("s3", "bucket/key", S3, "bucket"),
    );
    // An object's key may begin with a slash: it is another object than `k`.
    check("s3://bucket//k", ("s3", "bucket//k", S3, "bucket"));
    check("gs://bucket//a//k", ("gs", "bucket//a//k", Gs, "bucket"));
    check("gs://b/folder/f.json", ("gs", "b/folder/f.json", Gs, "b"));
    let ftp = "ftp://ftp.example.com/pub/file.zip";
    check(ftp, ("ftp", "/pub/file.zip", Ftp, "ftp.example.com"));
}

#[test]
fn artifacts_evidence_and_strangers_are_parsed() {
    use UriType::{Artifact, Memory, Unknown};
    let path = "scm/repo-001/git/patch.diff";
    check(path, ("-", path, Artifact, "-"));
    let artifact = "artifact://scm/repo/test.diff";
    check(
        artifact,
        ("artifact", "scm/repo/test.diff", Artifact, "scm"),
    );
    check(
        "artifact://test.diff",
        ("artifact", "test.diff", Artifact, "test.diff"),
    );
    check("artifact:///abs/x", ("artifact", "abs/x", Artifact, "-"));
    check("1:abc", ("-", "1:abc", Artifact, "-"));
    // A key is the name of a file, and that may hold anything.
    check("scm/a?b=c", ("-", "scm/a?b=c", Artifact, "-"));
    check("scm/C#.md", ("-", "scm/C#.md", Artifact, "-"));
    check("artifact://C#.md", ("artifact", "C#.md", Artifact, "C#.md"));
    check(
        "artifact://a?b/c#d",
        ("artifact", "a?b/c#d", Artifact, "a?b"),
    );
    check("", ("-", "", Artifact, "-"));
    check("mr://project/123", ("mr", "/123", Unknown, "project"));
    check(
        "git://repo/commit/abc",
        ("git", "/commit/abc", Unknown, "repo"),
    );
    check(
        "svn://repo/trunk@100",
        ("svn", "/trunk@100", Unknown, "repo"),
    );
    check("commit:abc123", ("commit", "abc123", Unknown, "-"));
    check("git:1:abc", ("git", "1:abc", Unknown, "-"));
    let patch = "memory://patch_blobs/git/1:abc123/S";
    check(
        patch,
        (
            "memory",
            "patch_blobs/git/1:abc123/S",
            Memory,
            "patch_blobs",
        ),
    );
    let document = "memory://docs/contracts/evidence_packet.md/S";
    check(
        document,
        (
            "memory",
            "docs/contracts/evidence_packet.md/S",
            Memory,
            "docs",
        ),
    );
    check(
        "MEMORY://attachments/1/S",
        ("memory", "attachments/1/S", Memory, "attachments"),
    );
    let query = "memory://patch_blobs/git/1:abc?x=1/S";
    check(
        query,
        ("memory", "patch_blobs/git/1:abc", Memory, "patch_blobs"),
    );
}

#[test]
fn uris_are_classified_by_family() {
    use UriClass::{ArtifactKey, EvidenceUri, PhysicalUri};
    let table = [
        ("memory://docs/x", EvidenceUri, false),
        ("s3://b/k", PhysicalUri, false),
        ("https://h/p", PhysicalUri, false),
        ("a/b", ArtifactKey, true),
        ("artifact://a", ArtifactKey, true),
        // No keys, and yet of that family.
        ("custom://x", ArtifactKey, false),
        ("git:1:abc", ArtifactKey, false),
    ];
    for (uri, class, is_key) in table {
        assert_eq!(classify_uri_type(uri), class, "{uri}");
        assert_eq!(parse_uri(uri).is_artifact_key(), is_key, "{uri}");
    }
    let physical = |uri| {
        let physical = parse_physical_uri(uri)?;
        Some((
            physical.scheme,
            physical.bucket.unwrap_or_default(),
            physical.key,
        ))
    };
    let table = [
        (
            "s3://my-bucket/engram/scm/1.diff",
            "s3",
            "my-bucket",
            "engram/scm/1.diff",
        ),
        ("s3://b", "s3", "b", ""),
        ("s3://b//k", "s3", "b", "/k"),
        ("file:///mnt/artifacts/x", "file", "", "/mnt/artifacts/x"),
        ("https://h/p", "https", "", "/p"),
    ];
    for (uri, scheme, bucket, key) in table {
        let expected = (scheme.to_owned(), bucket.to_owned(), key.to_owned());
        assert_eq!(physical(uri), Some(expected));
    }
    assert_eq!(physical("scm/1/a.diff"), None);
    assert_eq!(physical("memory://docs/x"), None);
}

#[test]
fn changes_have_uris() {
    let built = build_evidence_uri("GIT ", " 1:abc ", &format!(" {}", S.to_uppercase()));
    assert_eq!(built, with_hash("memory://patch_blobs/git/1:abc/S"));
    let of = build_evidence_uri_of("svn", 2, "1234", S);
    assert_eq!(of, with_hash("memory://patch_blobs/svn/2:1234/S"));

    let upper = S.to_uppercase();
    let read = |uri: &str| parse_evidence_uri(&with_hash(uri));
    let table = [
        ("memory://patch_blobs/git/1:abc123/S", "git", "1:abc123", S),
        (
            "memory://patch_blobs/git/1:abc123/sha256hash",
            "git",
            "1:abc123",
            "sha256hash",
        ),
        (
            "memory://patch_blobs/svn/2:1234/S^",
            "svn",
            "2:1234",
            upper.as_str(),
        ),
        // The reference reads the id of `git/a/b/<sha>` as `a` in one place and as `a/b` in another;
        // here it is encoded.
        ("memory://patch_blobs/git/a%2Fb/S", "git", "a/b", S),
    ];
    for (uri, source_type, source_id, sha256) in table {
        let patch = read(uri).expect(uri);
        assert_eq!(patch.source_type, source_type);
        assert_eq!(patch.source_id, source_id);
        assert_eq!(patch.sha256, sha256);
        assert_eq!(patch.is_strong(), sha256.len() == 64);
        assert_eq!(read(&patch.to_string()).unwrap().source_id, source_id);
    }
    let none = [
        // The reference ignores what follows, or takes the wrong part for the hash.
        "memory://patch_blobs/git/1:abc/S/extra",
        "memory://patch_blobs/git/a/b/S",
        "memory://patch_blobs/git/1:abc123",
        "memory://patch_blobs/sha256/S",
        "memory://patch_blobs/blob_id/5",
        "memory://attachments/1/S",
        "https://x/patch_blobs/a/b/c",
        "memory://patch_blobs/git/1 a/S",
        "memory://patch_blobs/git//S",
        "memory://patch_blobs/git/../S",
        "memory://patch_blobs/git/a%2F..%2Fb/S",
        "memory://patch_blobs/git/1:a%zz/S",
        "memory://patch_blobs/g!t/1:a/S",
        "memory://patch_blobs/git/1:a/S?x",
    ];
    for uri in none {
        assert_eq!(read(uri), None, "{uri}");
    }
    assert!(is_patch_blob_evidence_uri("memory://patch_blobs/blob_id/5"));
    assert!(!is_patch_blob_evidence_uri("memory://patch_blobs_other/5"));
    assert!(!is_patch_blob_evidence_uri("https://patch_blobs/git"));
}

/// The last row of ids is what the reference accepts and we do not.
#[test]
fn attachments_have_uris() {
    let read = |uri: &str| parse_attachment_evidence_uri_strict(&with_hash(uri));
    let fine = [
        "memory://attachments/12345/S",
        "memory://attachments/12345/S^",
        "memory://attachments/12345/S/",
        "memory:///attachments/12345/S",
    ];
    for uri in fine {
        let attachment = read(uri).unwrap();
        assert_eq!(
            (attachment.attachment_id, attachment.sha256.as_str()),
            (12345, S)
        );
        assert_eq!(attachment.to_string(), with_hash(fine[0]));
    }
    assert_eq!(read("memory://attachments/0/S").unwrap().attachment_id, 0);

    let hash =
        |text: &str, count: usize| format!("memory://attachments/123/{}", text.repeat(count));
    let (short, long, odd) = (hash("a", 63), hash("a", 65), hash("g", 64));
    let table = [
        ("memory://attachments/namespace/123/S", "E_LEGACY_FORMAT"),
        ("memory://attachments/a/b/c/S", "E_LEGACY_FORMAT"),
        ("memory://attachments/abc/S", "E_INVALID_ID"),
        ("memory://attachments/12.34/S", "E_INVALID_ID"),
        ("memory://attachments/id_123/S", "E_INVALID_ID"),
        ("memory://attachments//S", "E_INVALID_ID"),
        ("memory://attachments/123/short", "E_INVALID_SHA256"),
        (&short, "E_INVALID_SHA256"),
        (&long, "E_INVALID_SHA256"),
        (&odd, "E_INVALID_SHA256"),
        ("memory://attachments/123", "E_MALFORMED"),
        ("memory://attachments", "E_MALFORMED"),
        ("memory://attachments/1/S?x=1", "E_MALFORMED"),
        ("memory://patch_blobs/git/1:a/S", "E_NOT_ATTACHMENTS"),
        ("memory://docs/x/S", "E_NOT_ATTACHMENTS"),
        ("https://e/attachments/1/S", "E_NOT_MEMORY"),
        ("attachments/1/S", "E_NOT_MEMORY"),
        ("memory://attachments/-123/S", "E_INVALID_ID"),
        ("memory://attachments/+5/S", "E_INVALID_ID"),
        ("memory://attachments/ 7 /S", "E_INVALID_ID"),
        ("memory://attachments/1_000/S", "E_INVALID_ID"),
        ("memory://attachments/007/S", "E_INVALID_ID"),
        ("memory://attachments/١٢/S", "E_INVALID_ID"),
        (
            "memory://attachments/12345678901234567890/S",
            "E_INVALID_ID",
        ),
    ];
    for (uri, code) in table {
        assert_eq!(read(uri).unwrap_err().code(), code, "{uri}");
        assert_eq!(parse_attachment_evidence_uri(&with_hash(uri)), None);
    }

    let built = build_attachment_evidence_uri(5, &format!(" {} ", S.to_uppercase())).unwrap();
    assert_eq!(built, with_hash("memory://attachments/5/S"));
    assert!(build_attachment_evidence_uri(-1, S).is_err());
    assert!(build_attachment_evidence_uri(5, "short").is_err());
}
