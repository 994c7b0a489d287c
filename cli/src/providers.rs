//! `refrain info --providers`.

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width};
use refrain_job::choice::{Provider, provider};
use std::fmt::Write as _;
use std::fs;

/// Maximum width of the table.
const TERMINAL_COLUMNS: u16 = 100;
/// Width of each of the last two columns, which contain sentences and wrap.
const SENTENCE_COLUMNS: u16 = 22;

/// Describes each provider of libfabric; or, in one line, what is missing. `version` is the
/// library's version.
pub fn text(found: Result<&[Provider], &str>, version: &str) -> String {
    let found = match found {
        Ok(found) => found,
        Err(why) => return format!("{why}\n"),
    };
    let mut text = String::new();
    let file = loaded_file("libfabric").map_or_else(String::new, |file| format!(" ({file})"));
    let _ = writeln!(text, "libfabric   {version}{file}");
    if let Some(best) = provider::best(found) {
        let _ = writeln!(text, "ofi takes   {} ({})", best.provider.name, best.reason);
    }
    let _ = writeln!(text, "\n{}\n", table(found).trim_fmt());
    for provider in found {
        if let Err(why) = &provider.usable {
            let _ = writeln!(text, "{} cannot be used: {why}", provider.name);
        }
    }
    text.push_str(
        "\nlong      messages: read (the receiver reads the sender's log) or in pieces\n\
         sleeps    how a waiting rank finds out that something came\n\
         inject    bytes that are sent without a completion, at most\n\
         sent      what the completion of a message means, with FI_DELIVERY_COMPLETE\n\
         written   the same of a one-sided write\n",
    );
    text
}

fn table(found: &[Provider]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(TERMINAL_COLUMNS)
        .set_header([
            "provider", "version", "usable", "long", "sleeps", "inject", "sent", "written",
        ]);
    for provider in found {
        let (major, minor) = provider.version;
        let usable = provider.usable.is_ok();
        let when_usable = |text: &str| {
            if usable {
                text.to_owned()
            } else {
                String::new()
            }
        };
        table.add_row([
            provider.name.clone(),
            format!("{major}.{minor}"),
            if usable { "yes" } else { "no" }.into(),
            when_usable(provider.long_messages),
            when_usable(provider.sleeps),
            when_usable(&provider.inject_bytes.to_string()),
            when_usable(provider.message_completion),
            when_usable(provider.write_completion),
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        column.set_constraint(if index < 6 {
            ColumnConstraint::ContentWidth
        } else {
            ColumnConstraint::UpperBoundary(Width::Fixed(SENTENCE_COLUMNS))
        });
    }
    table
}

/// The file from which this process has loaded a library. The version in its name is not that of
/// the release: libfabric 1.17 is in `libfabric.so.1.20.0`.
pub fn loaded_file(library: &str) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    file_in(&maps, library).map(str::to_owned)
}

/// The first mapped file whose name begins with `library`.
fn file_in<'a>(maps: &'a str, library: &str) -> Option<&'a str> {
    maps.lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .find(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name.starts_with(library)
        })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn provider(name: &str, usable: Result<(), String>) -> Provider {
        Provider {
            name: name.into(),
            version: (117, 0),
            usable,
            long_messages: "read",
            sleeps: "descriptor",
            inject_bytes: 4096,
            message_completion: "in the memory of the peer",
            write_completion: "nothing",
        }
    }

    #[test]
    fn every_provider_is_a_row_and_every_refusal_a_line() {
        let found = [
            provider("tcp", Ok(())),
            provider("udp", Err("it loses messages".into())),
        ];
        let text = text(Ok(&found), "1.17");
        assert!(text.starts_with("libfabric   1.17"), "{text}");
        let row = text.lines().find(|line| line.starts_with("tcp ")).unwrap();
        for word in [
            "117.0",
            "yes",
            "read",
            "descriptor",
            "4096",
            "in the memory",
            "nothing",
        ] {
            assert!(row.contains(word), "{word} in {row}");
        }
        let row = text.lines().find(|line| line.starts_with("udp ")).unwrap();
        assert!(row.contains("no") && !row.contains("4096"), "{row}");
        assert!(
            text.contains("udp cannot be used: it loses messages"),
            "{text}"
        );
        assert!(text.contains("ofi takes   tcp"), "{text}");
    }

    /// The longest texts of all columns.
    #[test]
    fn the_table_fits_a_terminal() {
        let mut longest = provider("verbs;ofi_rxm", Ok(()));
        longest.long_messages = "messages";
        longest.message_completion = "buffer free, whatever is asked";
        longest.write_completion = "in memory; target must poll";
        let table = table(&[longest]).trim_fmt();
        assert!(table.contains("whatever is asked"), "{table}");
        let widest = table.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(TERMINAL_COLUMNS.into()), "{table}");
    }

    #[test]
    fn without_libfabric_there_is_one_line() {
        assert_eq!(text(Err("install it"), ""), "install it\n");
    }

    #[test]
    fn the_loaded_file_is_found_among_the_maps() {
        let maps = "7f00-7f01 r-xp 0 fe:00 1   /usr/lib/libc.so.6\n\
                    7f02-7f03 r-xp 0 fe:00 2   /opt/libfabric/x.so\n\
                    7f04-7f05 r-xp 0 fe:00 3   /opt/my lib/libfabric.so.1.19.1\n";
        assert_eq!(
            file_in(maps, "libfabric"),
            Some("/opt/my lib/libfabric.so.1.19.1")
        );
        assert_eq!(file_in("7f00-7f01 rw-p 0 00:00 0 \n", "libfabric"), None);
    }
}
