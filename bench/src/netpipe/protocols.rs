//! Names of what is compared: protocols, and protocols in one correlated set.

/// The end of a name if both ranks are in one correlated set.
const IN_ONE_SET: &str = "+set";

/// The protocol's own name.
pub fn base(name: &str) -> &str {
    name.strip_suffix(IN_ONE_SET).unwrap_or(name)
}

/// Whether both ranks are in one correlated set.
pub fn is_in_one_set(name: &str) -> bool {
    name.ends_with(IN_ONE_SET)
}

/// Whether the ranks keep payload for each other.
pub fn keeps_payload(name: &str) -> bool {
    name != "none" && !is_in_one_set(name)
}
