//! Acceptor and store together: what a server has.
