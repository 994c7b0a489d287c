//! Sockets between hosts: one that is gone says nothing, so the kernel asks.

use core::time::Duration;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::os::fd::AsFd;

/// After so long without a word the kernel asks …
const IDLE: Duration = Duration::from_secs(5);
/// … so often …
const INTERVAL: Duration = Duration::from_secs(2);
/// … so many times. Nobody there: the connection is over.
const PROBES: u32 = 3;
/// While something that was said is not acknowledged the kernel does not ask; it
/// repeats it, by itself for a quarter of an hour. Longer than its questions take, as
/// it counts also while the other side has no room.
const UNACKNOWLEDGED_MAX_MS: u32 = 30_000;

/// The connection ends when its other side is not reached any more.
///
/// # Errors
/// Of the system.
pub fn watch(socket: impl AsFd) -> Result<(), Errno> {
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, PROBES)?;
    sockopt::set_tcp_user_timeout(&socket, UNACKNOWLEDGED_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// Both clocks are bounded: that of an idle connection, and that of one with
    /// something unacknowledged, which the first does not touch.
    #[test]
    fn who_is_gone_is_noticed_idle_or_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        watch(&stream).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let idle = sockopt::tcp_keepidle(&stream).unwrap();
        let asking = sockopt::tcp_keepintvl(&stream).unwrap() * PROBES;
        assert_eq!(sockopt::tcp_keepcnt(&stream), Ok(PROBES));
        assert!(idle + asking <= Duration::from_secs(15));
        let unacknowledged_ms = sockopt::tcp_user_timeout(&stream).unwrap();
        assert!((1..=30_000).contains(&unacknowledged_ms));
    }
}
