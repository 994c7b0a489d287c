//! The process that serves clients: sockets, rings, logbook.
