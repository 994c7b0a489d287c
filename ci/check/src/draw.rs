//! Random samples of the tree's comments, error texts and help lines.

use crate::sources;
use crate::tree::Tree;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Line number (from 1) and text.
type Found = (usize, String);

/// Title, number of texts to draw, and the function that finds them in a file.
type Kind = (&'static str, usize, fn(&str) -> Vec<Found>);

/// Prints 40 comments, 20 error texts and 20 help lines; the seed selects them.
pub fn texts(tree: &Tree, seed: u64) -> Result<String, String> {
    let mut out = format!("seed {seed}\n");
    let sources = sources::read(tree)?;
    let kinds: [Kind; 3] = [
        ("comments", 40, comments),
        ("error texts", 20, errors),
        ("help lines", 20, helps),
    ];
    for (title, count, find) in kinds {
        let files = sources.iter().filter(|source| !source.is_test);
        let mut found: Vec<_> = files
            .flat_map(|source| find(source.text).into_iter().map(|it| (source.path, it)))
            .collect();
        found.sort_by_cached_key(|found| {
            let mut hasher = DefaultHasher::new();
            (seed, found).hash(&mut hasher);
            hasher.finish()
        });
        let _ = writeln!(out, "\n{title}");
        for (path, (line, text)) in found.into_iter().take(count) {
            let _ = writeln!(out, "{path}:{line}: {text}");
        }
    }
    Ok(out)
}

/// Blocks of comment lines, including docstrings.
fn comments(text: &str) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut follows = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("//");
        if let Some(comment) = comment {
            let words = comment.trim_start_matches(['/', '!']).trim();
            match found.last_mut().filter(|_| follows) {
                Some((_, block)) => *block = format!("{block} {words}"),
                None => found.push((index + 1, words.to_owned())),
            }
        }
        follows = comment.is_some();
    }
    found
}

/// Strings in attributes `error(…)` and in arguments of calls whose names suggest an error.
fn errors(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    visit(text.parse().unwrap_or_default(), &mut |tokens| {
        if let Some(TokenTree::Ident(name)) = tokens.first() {
            let name = name.to_string();
            let says_error = name.to_lowercase().contains("err") || name.starts_with("ok_or");
            let mut rest = tokens[1..].iter();
            let first_group = rest.find(|token| !is_path_to_call(token));
            if let (true, Some(TokenTree::Group(group))) = (says_error, first_group)
                && group.delimiter() == Delimiter::Parenthesis
            {
                strings(group.stream(), &mut found);
            }
        }
    });
    found.sort();
    found.dedup();
    found
}

fn is_path_to_call(token: &TokenTree) -> bool {
    match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(punct) => matches!(punct.as_char(), ':' | '!'),
        _ => false,
    }
}

/// Docstrings in types that derive a command line of `clap`.
fn helps(text: &str) -> Vec<Found> {
    const DERIVED: [&str; 4] = ["Parser", "Args", "Subcommand", "ValueEnum"];
    let mut found = Vec::new();
    visit(text.parse().unwrap_or_default(), &mut |tokens| {
        let derives = match tokens {
            [TokenTree::Punct(_), TokenTree::Group(group), ..] => {
                let words = group.stream().to_string();
                words.starts_with("derive") && DERIVED.iter().any(|it| words.contains(it))
            }
            _ => false,
        };
        let body = tokens.iter().find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
            _ => None,
        });
        if let (true, Some(body)) = (derives, body) {
            let lines = body.span().start().line..=body.span().end().line;
            let docs = text.lines().map(|line| match line.trim_start() {
                doc if doc.starts_with("///") => line,
                _ => "",
            });
            let docs: Vec<&str> = docs.collect();
            let docs = comments(&docs.join("\n")).into_iter();
            found.extend(docs.filter(|(line, _)| lines.contains(line)));
        }
    });
    found
}

/// Calls `look` at each token, with the rest of the tokens in its group.
fn visit(tokens: TokenStream, look: &mut impl FnMut(&[TokenTree])) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        look(&tokens[index..]);
        if let TokenTree::Group(group) = token {
            visit(group.stream(), look);
        }
    }
}

/// Finds all string literals that contain a space.
fn strings(tokens: TokenStream, found: &mut Vec<Found>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => strings(group.stream(), found),
            TokenTree::Literal(literal) => {
                let (line, text) = (literal.span().start().line, literal.to_string());
                if text.starts_with('"') && text.contains(' ') {
                    found.push((line, text));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
//! One.
//! Two.

#[derive(Debug, Parser)]
struct A {
    /// Help.
    a: u8, // beside
}
/// No help.
#[derive(Debug, Error)]
#[error(\"file {0} is torn\")]
struct B;
fn f() {
    Err(io::Error::other(format!(\"no {a} there\"))) // x
}
";

    #[test]
    fn comments_errors_and_help_lines_are_found() {
        let at = |line: usize, text: &str| (line, text.to_owned());
        let expected = [at(1, "One. Two."), at(6, "Help."), at(9, "No help.")];
        assert_eq!(comments(TEXT), expected);
        let expected = [at(11, "\"file {0} is torn\""), at(14, "\"no {a} there\"")];
        assert_eq!(errors(TEXT), expected);
        assert_eq!(helps(TEXT), [at(6, "Help.")]);
    }

    #[test]
    fn the_seed_decides() {
        let many: String = (0..100)
            .map(|it| format!("// {it}\nfn f() {{}}\n"))
            .collect();
        let tree = Tree::of(&[("a.rs", &many)]);
        let drawn = |seed| texts(&tree, seed).unwrap();
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7).split_once('\n'), drawn(8).split_once('\n'));
        assert_eq!(drawn(7).matches("a.rs:").count(), 40);
    }
}
