//! The agreement of two endpoints on a pair of queue pairs, with any behaviour of datagrams and
//! queue pairs: small cases exhaustively, larger ones at random, with time.

mod exhaustive;
mod fences;
mod graph;
mod network;
mod paces;
mod seed;
mod storms;
