//! Which places of a group read one memory.

use std::ops::Range;

/// The hosts of a group, each a range of places that read each other's memory. Where the places of
/// a host are not next to each other, each place counts as a host by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts<'a> {
    /// The first place of each host; empty if each place is alone.
    starts: &'a [u32],
}

impl<'a> Hosts<'a> {
    /// All places are on one host.
    pub const ONE: Self = Self { starts: &[0] };
    /// Each place is alone.
    pub const APART: Self = Self { starts: &[] };

    /// Hosts by their [first places](Self::first_places).
    pub fn new(starts: &'a [u32]) -> Self {
        Self { starts }
    }

    /// The first place of each host, from the host of each place, by place.
    pub fn first_places(host_of_place: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let (mut starts, mut hosts): (Vec<u32>, Vec<u32>) = Default::default();
        let mut size = 0;
        for (place, host) in (0..).zip(host_of_place) {
            if hosts.last() != Some(&host) {
                starts.push(place);
                hosts.push(host);
            }
            size = place + 1;
        }
        hosts.sort_unstable();
        let is_alone = starts.len() == size as usize && size > 1;
        let is_in_ranges = hosts.windows(2).all(|pair| pair[0] < pair[1]);
        match is_in_ranges && !is_alone {
            true => starts,
            false => Vec::new(),
        }
    }

    /// The first place of each host; none if each place is alone.
    pub(crate) fn starts(self) -> &'a [u32] {
        self.starts
    }

    /// Whether all places are on one host.
    pub fn are_one(self) -> bool {
        self.starts.len() == 1
    }

    /// Whether there are several hosts, and one of them has several places.
    pub fn are_several(self) -> bool {
        self.starts.len() > 1
    }

    /// The places of a host, of [several](Self::are_several) in a group of `size` places.
    pub(crate) fn places(self, host: usize, size: u32) -> Range<u32> {
        let end = self.starts.get(host + 1).copied();
        self.starts[host]..end.unwrap_or(size)
    }

    /// The places of each of several hosts.
    pub(crate) fn ranges(self, size: u32) -> impl Iterator<Item = Range<u32>> {
        (0..self.starts.len()).map(move |host| self.places(host, size))
    }

    /// The number of the host of a place, of several.
    pub fn host(self, place: u32) -> usize {
        self.starts.partition_point(|first| *first <= place) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_ranges_of_places() {
        let first_places = |hosts: &[u32]| Hosts::first_places(hosts.iter().copied());
        assert_eq!(first_places(&[3, 3, 0, 7, 7, 7]), [0, 2, 3]);
        assert_eq!(first_places(&[4, 4]), [0]);
        assert_eq!(first_places(&[4]), [0]);
        assert!(first_places(&[0, 1, 2]).is_empty(), "each place is alone");
        assert!(first_places(&[0, 1, 1, 0]).is_empty(), "not in ranges");
        let starts = [0, 2, 3];
        let hosts = Hosts::new(&starts);
        let ranges: Vec<_> = hosts.ranges(6).collect();
        assert_eq!(ranges, [0..2, 2..3, 3..6]);
        let host_of_place: Vec<_> = (0..6).map(|place| hosts.host(place)).collect();
        assert_eq!(host_of_place, [0, 0, 1, 2, 2, 2]);
    }
}
