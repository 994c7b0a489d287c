//! Jobs driven by a program that embeds the launcher, and programs that join without one.

mod job;
mod join;
mod orders;
mod restarts;
mod spec;
