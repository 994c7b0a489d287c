//! NetPIPE's series of message sizes.

/// A size of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Bytes of one message.
    pub bytes: u64,
    /// The size is beside a size of the series.
    pub perturbed: bool,
}

/// NetPIPE's series from `min` to `max`: 1, 2, 3, 4, 6, 8, 12, 16, 24, … (powers of two and one
/// and a half times these), `min` and `max` themselves, and for each size also the sizes
/// `perturbation` bytes below and above. As in NetPIPE, a size is only perturbed if the step to
/// the next size is larger than `perturbation` + 1, and the largest size may exceed `max` by
/// `perturbation`.
pub fn series(min: u64, max: u64, perturbation: u64) -> Vec<Point> {
    let mut bases: Vec<u64> = powers_and_halves()
        .skip_while(|size| *size < min)
        .take_while(|size| *size <= max)
        .chain([min, max])
        .collect();
    bases.sort_unstable();
    bases.dedup();
    let mut points = Vec::with_capacity(3 * bases.len());
    for &bytes in &bases {
        let point = |bytes, perturbed| Point { bytes, perturbed };
        points.push(point(bytes, false));
        if perturbation > 0 && step_after(bytes) > perturbation + 1 {
            points.extend(
                bytes
                    .checked_sub(perturbation)
                    .map(|less| point(less, true)),
            );
            points.extend(
                bytes
                    .checked_add(perturbation)
                    .map(|more| point(more, true)),
            );
        }
    }
    // A size that is on the series and also beside another size counts as on the series.
    points.sort_unstable();
    points.dedup_by_key(|point| point.bytes);
    points.retain(|point| point.bytes > 0);
    points
}

fn powers_and_halves() -> impl Iterator<Item = u64> {
    let later = (1..63).flat_map(|shift| [1 << shift, 3 << (shift - 1)]);
    std::iter::once(1).chain(later)
}

/// Distance from `bytes` to the next size of the series.
fn step_after(bytes: u64) -> u64 {
    let power = 1u64 << bytes.max(1).ilog2();
    let half_more = power + power / 2;
    match bytes >= half_more {
        true => power.saturating_mul(2) - bytes,
        false => half_more - bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(points: &[Point]) -> Vec<u64> {
        points.iter().map(|point| point.bytes).collect()
    }

    #[test]
    fn the_series_is_that_of_netpipe() {
        assert_eq!(
            bytes(&series(1, 128, 0)),
            [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
        );
        // The output of NPopenmpi 3.7.2 with its default perturbation.
        assert_eq!(
            bytes(&series(1, 64, 3)),
            [
                1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67
            ]
        );
        let perturbed: Vec<_> = series(1, 24, 3)
            .into_iter()
            .filter(|point| point.perturbed)
            .collect();
        assert_eq!(bytes(&perturbed), [13, 19, 21, 27]);
    }

    #[test]
    fn both_ends_are_measured_even_beside_the_series() {
        assert_eq!(bytes(&series(100, 200, 0)), [100, 128, 192, 200]);
        assert_eq!(bytes(&series(7, 7, 0)), [7]);
        assert_eq!(bytes(&series(1, 1, 3)), [1]);
    }

    #[test]
    fn a_size_on_the_series_is_not_called_perturbed() {
        // 16 - 4 = 12 is on the series too.
        let points = series(8, 32, 4);
        assert!(points.contains(&Point {
            bytes: 12,
            perturbed: false
        }));
        let mut distinct = bytes(&points);
        distinct.dedup();
        assert_eq!(distinct, bytes(&points), "ascending, each once");
    }

    #[test]
    fn the_series_ends_where_sizes_end() {
        let points = series(1 << 62, u64::MAX, 3);
        assert_eq!(points.last().map(|point| point.bytes), Some(u64::MAX));
    }
}
