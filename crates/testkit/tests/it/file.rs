use std::fs;

use consign_testkit::FileTemplate;

#[test]
fn a_template_file_is_made_once_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let template = FileTemplate::within(folder.path(), ["CREATE TABLE parcel (id)"]);
    let [first, second] = ["first.db", "second.db"].map(|name| folder.path().join(name));
    assert!(!template.copy_to(&first), "not created yet");
    fs::write(&first, "a database").unwrap();
    template.keep(&first);
    assert!(template.copy_to(&second));
    assert_eq!(fs::read_to_string(&second).unwrap(), "a database");
    let changed = FileTemplate::within(folder.path(), ["CREATE TABLE parcel (id, weight)"]);
    assert!(!changed.copy_to(&second), "made by other migrations");
}
