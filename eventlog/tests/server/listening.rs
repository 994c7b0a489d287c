//! Addresses on which a server listens.

use crate::rank::Wire;
use crate::serving::Threaded;
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::server::{Server, ServerError, ServerOptions};
use refrain_eventlog::{Level, LoggerId};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use tempfile::TempDir;

fn bind(path: PathBuf) -> Result<Server, ServerError> {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let mut options = ServerOptions::new(data, LoggerId(0), Level::Placed);
    options.listen = vec![ServerAddress::Unix(path)];
    Server::bind(options, |_| {})
}

#[test]
fn a_socket_that_a_dead_server_left_is_taken_over_and_one_that_lives_is_not() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "left behind");
    let server = bind(path.clone()).expect("taken over");
    let error = bind(path.clone()).expect_err("it is in use").to_string();
    assert!(error.contains("another server listens there"), "{error}");
    drop(server);
    assert!(!path.exists(), "removed at the end");
}

#[test]
fn a_file_that_is_no_socket_stays() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, b"mine").expect("a file");
    assert!(bind(path.clone()).is_err());
    assert_eq!(std::fs::read(&path).expect("still there"), b"mine");
}

#[test]
fn a_path_that_is_too_long_is_named_with_its_length() {
    let path = PathBuf::from(format!("/tmp/{}", "x".repeat(103)));
    let error = bind(path).expect_err("too long").to_string();
    assert!(
        error.contains("108 bytes") && error.contains("107"),
        "{error}"
    );
    assert!(error.contains("its last part"), "{error}");
}

#[test]
fn a_server_that_ends_takes_its_socket_with_it() {
    let server = Threaded::new(Level::Placed);
    drop(Wire::unix(&server.socket));
    let socket = server.socket.clone();
    server.end();
    assert!(!socket.exists());
}
