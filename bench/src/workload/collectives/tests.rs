use super::case::{Case, Kind};
use std::collections::HashSet;

#[test]
fn every_kind_is_drawn() {
    let kinds: HashSet<Kind> = (0..400)
        .map(|seed| Case::random(4, 10, seed).kind)
        .collect();
    assert_eq!(kinds.len(), Kind::ALL.len());
}
