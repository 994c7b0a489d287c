//! An event logger as a process of its own, for tests that kill it:
//! `FOLDER SOCKET placed|durable PEER...`; ends when its input ends.

use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::server::{Server, ServerOptions};
use refrain_eventlog::{Level, LoggerId};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("FOLDER SOCKET LEVEL PEER...");
    let (folder, socket, level) = (next(), next(), next());
    let level = Level::ALL
        .iter()
        .find_map(|(name, known)| (*name == level).then_some(*known))
        .expect("a level");
    let mut options = ServerOptions::new(folder.into(), LoggerId(0), level);
    options.listen = vec![ServerAddress::Unix(socket.into())];
    options.peers = arguments
        .map(|peer| peer.parse().expect("an address"))
        .collect();
    options.segment_bytes = 1 << 20;
    let mut server = Server::bind(options, |text| eprintln!("{text}")).expect("a server");
    println!("ready");
    server.serve_until(std::io::stdin()).expect("served");
}
