//! How two endpoints agree on a pair of queue pairs, whatever datagrams and queue
//! pairs do meanwhile: small cases exhaustively, larger ones at random, in time.

mod exhaustive;
mod fences;
mod graph;
mod network;
mod paces;
mod seed;
mod storms;
