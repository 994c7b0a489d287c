//! The properties of the ranks of a test, which are the same in parent and child.

use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::network::NetworkOptions;
use refrain_transport::fabric::ofi::{OfiOptions, Overrides, providers};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of log that one channel holds.
pub const WINDOW_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub library: Option<PathBuf>,
    pub provider: String,
    pub job: u64,
    pub size: u32,
    pub lost_after: Duration,
    pub suspect_after: Option<Duration>,
    pub overrides: Overrides,
    /// Payload lengths, used in turn.
    pub sizes: Vec<usize>,
}

/// The library of the system, or the second one, if there is one and it has the provider; otherwise
/// prints which test is skipped.
pub fn setting(provider: &str, second: bool) -> Option<Setting> {
    let mut library = None;
    if second {
        let named = std::env::var_os("REFRAIN_LIBFABRIC_SECOND");
        let Some(named) = named else {
            println!(
                "skipped ofi:{provider} on a second libfabric: REFRAIN_LIBFABRIC_SECOND names none"
            );
            return None;
        };
        library = Some(PathBuf::from(named));
    }
    let offered = providers(library.as_deref()).expect("the library can be loaded");
    let is_offered = offered
        .iter()
        .any(|offer| is_of(&offer.name, provider) && offer.usable.is_ok());
    if !is_offered {
        let which = if second { "second" } else { "first" };
        println!("skipped ofi:{provider} on the {which} libfabric: it does not offer it");
        return None;
    }
    Some(Setting {
        library,
        provider: provider.into(),
        job: u64::from(std::process::id()) << 20,
        size: 3,
        lost_after: Duration::from_secs(60),
        suspect_after: None,
        overrides: Overrides::default(),
        sizes: vec![0, 8, 16, 17, 100, 1000, 3000, 9000, 14_000],
    })
}

/// Whether an offer is for this provider: 1.17 offers `tcp;ofi_rxm` if `tcp` is asked for.
pub fn is_of(offer: &str, provider: &str) -> bool {
    offer == provider || offer.split(';').any(|layer| layer == provider)
}

impl Setting {
    pub fn options(&self, rank: Rank, incarnation: Incarnation) -> OfiOptions {
        OfiOptions {
            network: NetworkOptions {
                job: self.job,
                rank,
                incarnation,
                size: self.size,
                window_bytes: WINDOW_BYTES,
                lost_after: self.lost_after,
                suspect_after: self.suspect_after,
            },
            provider: self.provider.clone(),
            library: self.library.clone(),
            overrides: self.overrides,
        }
    }

    /// Encodes the setting for an environment variable.
    pub fn encode(&self) -> String {
        let library = self.library.as_ref().map(|path| path.display().to_string());
        let millis = |time: Duration| time.as_millis().to_string();
        let number = |number: Option<usize>| number.map_or(String::new(), |it| it.to_string());
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        [
            library.unwrap_or_default(),
            self.provider.clone(),
            self.job.to_string(),
            self.size.to_string(),
            millis(self.lost_after),
            self.suspect_after.map_or(String::new(), millis),
            number(self.overrides.fragment_bytes),
            number(self.overrides.distant_bytes_min),
            number(self.overrides.credits),
            sizes.join(","),
        ]
        .join("|")
    }

    pub fn decode(text: &str) -> Self {
        let fields: Vec<&str> = text.split('|').collect();
        let number = |index: usize| fields[index].parse::<u64>().ok();
        let bytes = |index: usize| fields[index].parse::<usize>().ok();
        let sizes = fields[9].split(',');
        Self {
            library: (!fields[0].is_empty()).then(|| fields[0].into()),
            provider: fields[1].into(),
            job: number(2).unwrap(),
            size: number(3).unwrap() as u32,
            lost_after: Duration::from_millis(number(4).unwrap()),
            suspect_after: number(5).map(Duration::from_millis),
            overrides: Overrides {
                fragment_bytes: bytes(6),
                distant_bytes_min: bytes(7),
                credits: bytes(8),
            },
            sizes: sizes.map(|size| size.parse().unwrap()).collect(),
        }
    }
}
