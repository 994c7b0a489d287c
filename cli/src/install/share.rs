//! What `refrain install` puts into `share`: manual pages, completions for shells, a modulefile.

use crate::mpiexec;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;

const MODULEFILE: &str = include_str!("modulefile.tcl");

/// All files: their paths in the prefix, and their texts. `refrain` is the description of the command
/// line.
///
/// # Errors
/// None is expected: texts are written into memory.
pub fn files(refrain: Command) -> io::Result<Vec<(String, String)>> {
    let mut commands: Vec<Command> = mpiexec::NAMES
        .map(|name| mpiexec::options::command(name, &mpiexec::options_of_run()))
        .into();
    commands.push(refrain);
    let mut files = Vec::new();
    for command in commands {
        add_completions(&command, &mut files);
        let mut command = command.disable_help_subcommand(true);
        command.build();
        add_manual_pages(command, &mut files)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    files.push((
        format!("share/modulefiles/refrain/{version}"),
        MODULEFILE.replace("VERSION", version),
    ));
    Ok(files)
}

/// A page for the command, and one for each of its subcommands.
fn add_manual_pages(command: Command, files: &mut Vec<(String, String)>) -> io::Result<()> {
    let shown = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    for subcommand in shown {
        add_manual_pages(subcommand.clone(), files)?;
    }
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    files.push((
        format!("share/man/man1/{}", page.get_filename()),
        utf8(text),
    ));
    Ok(())
}

/// Completions, under the names that the shells look for.
fn add_completions(command: &Command, files: &mut Vec<(String, String)>) {
    let name = command.get_name();
    for (shell, file) in [
        (Shell::Bash, format!("bash-completion/completions/{name}")),
        (Shell::Zsh, format!("zsh/site-functions/_{name}")),
        (
            Shell::Fish,
            format!("fish/vendor_completions.d/{name}.fish"),
        ),
    ] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), name, &mut text);
        files.push((format!("share/{file}"), utf8(text)));
    }
}

fn utf8(text: Vec<u8>) -> String {
    String::from_utf8_lossy(&text).into_owned()
}
