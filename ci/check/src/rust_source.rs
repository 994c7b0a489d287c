//! A Rust file as tokens and lines: tests, functions, and uses of `unsafe`.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::ops::RangeInclusive;

/// What an `unsafe` applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsafeKind {
    /// A block, or a block of foreign declarations.
    Block,
    /// `unsafe impl`.
    Impl,
    /// The definition or declaration of a function or trait, which has a contract.
    Contract,
    /// An attribute such as `no_mangle`.
    Attribute,
    /// The type of a function pointer, which needs no reason.
    PointerType,
}

/// One use of `unsafe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsafeUse {
    /// Line, from 1.
    pub line: usize,
    /// What it applies to.
    pub kind: UnsafeKind,
}

/// One attribute that permits `unsafe_code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsafeAllowance {
    /// Line, from 1.
    pub line: usize,
    /// Whether the attribute states a reason.
    pub has_reason: bool,
}

/// The facts about a Rust file that the checks need.
#[derive(Debug, Default)]
pub struct RustSource {
    /// All uses of `unsafe`.
    pub unsafe_uses: Vec<UnsafeUse>,
    /// All attributes that permit `unsafe_code`.
    pub unsafe_allowances: Vec<UnsafeAllowance>,
    /// The lines of each function with a body.
    pub functions: Vec<RangeInclusive<usize>>,
    /// Modules in their own files that are declared for tests only.
    pub test_modules: Vec<String>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl RustSource {
    /// Parses a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| format!("is not Rust: {error}"))?;
        let mut source = Self::default();
        source.visit(tokens);
        Ok(source)
    }

    /// Whether a line (from 1) belongs to a test.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&line))
    }

    fn visit(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(ident) if ident == "unsafe" => {
                    let kind = unsafe_kind(&tokens[index + 1..]);
                    self.unsafe_uses.push(UnsafeUse {
                        line: ident.span().start().line,
                        kind,
                    });
                }
                TokenTree::Ident(word) if word == "mod" => {
                    self.note_module(word.span().start().line, &tokens[index + 1..]);
                }
                TokenTree::Ident(word) if word == "fn" => {
                    self.note_function(word.span().start().line, &tokens[index + 1..]);
                }
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::Bracket && is_test_attribute(group) {
                        let first = group.span().start().line;
                        self.test_lines
                            .push(first..=end_of_item(&tokens[index + 1..], first));
                    }
                    self.note_allowance(&tokens, index, group);
                    self.visit(group.stream());
                }
                _ => {}
            }
        }
    }

    fn note_module(&mut self, line: usize, rest: &[TokenTree]) {
        if let [TokenTree::Ident(name), TokenTree::Punct(end), ..] = rest
            && end.as_char() == ';'
            && self.is_test_line(line)
        {
            self.test_modules.push(name.to_string());
        }
    }

    fn note_function(&mut self, first: usize, rest: &[TokenTree]) {
        let is_named = matches!(rest.first(), Some(TokenTree::Ident(_)));
        let end = rest.iter().find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                Some(Some(group.span().end().line))
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => Some(None),
            _ => None,
        });
        if let (true, Some(Some(last))) = (is_named, end) {
            self.functions.push(first..=last);
        }
    }

    fn note_allowance(&mut self, tokens: &[TokenTree], index: usize, group: &Group) {
        let permits = index > 0
            && ["allow", "expect", "warn"]
                .iter()
                .any(|word| is_ident(&tokens[index - 1], word));
        let inside: Vec<TokenTree> = group.stream().into_iter().collect();
        if permits && inside.iter().any(|token| is_ident(token, "unsafe_code")) {
            let has_reason = inside.windows(3).any(|three| {
                // A literal with its quotes; an empty one is no reason.
                is_ident(&three[0], "reason") && three[2].to_string().len() > 2
            });
            self.unsafe_allowances.push(UnsafeAllowance {
                line: group.span().start().line,
                has_reason,
            });
        }
    }
}

fn is_ident(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn unsafe_kind(rest: &[TokenTree]) -> UnsafeKind {
    let name_follows = |rest: &[TokenTree]| matches!(rest.first(), Some(TokenTree::Ident(_)));
    match rest {
        [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Parenthesis => {
            UnsafeKind::Attribute
        }
        [TokenTree::Ident(word), ..] if word == "impl" => UnsafeKind::Impl,
        [TokenTree::Ident(word), ..] if word == "trait" || word == "auto" => UnsafeKind::Contract,
        [TokenTree::Ident(word), rest @ ..] if word == "fn" && !name_follows(rest) => {
            UnsafeKind::PointerType
        }
        [TokenTree::Ident(word), ..] if word == "fn" => UnsafeKind::Contract,
        [TokenTree::Ident(word), TokenTree::Literal(_), rest @ ..]
        | [TokenTree::Ident(word), rest @ ..]
            if word == "extern" =>
        {
            if rest.first().is_some_and(|token| is_ident(token, "fn")) {
                unsafe_kind(rest)
            } else {
                UnsafeKind::Block
            }
        }
        _ => UnsafeKind::Block,
    }
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, …))]`; not `#[cfg(not(test))]`.
fn is_test_attribute(group: &Group) -> bool {
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    match tokens.as_slice() {
        [only] => is_ident(only, "test"),
        [cfg, TokenTree::Group(condition)] if is_ident(cfg, "cfg") => {
            contains_ident(condition.stream(), "test") && !contains_ident(condition.stream(), "not")
        }
        _ => false,
    }
}

fn contains_ident(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match &token {
        TokenTree::Group(group) => contains_ident(group.stream(), word),
        other => is_ident(other, word),
    })
}

fn end_of_item(rest: &[TokenTree], first: usize) -> usize {
    rest.iter()
        .find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                Some(group.span().end().line)
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => Some(punct.span().start().line),
            _ => None,
        })
        .unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<UnsafeKind> {
        RustSource::parse(text)
            .unwrap()
            .unsafe_uses
            .iter()
            .map(|found| found.kind)
            .collect()
    }

    #[test]
    fn tells_the_kinds_of_unsafe_apart() {
        assert_eq!(kinds("fn f() { unsafe { g() } }"), [UnsafeKind::Block]);
        assert_eq!(kinds("unsafe impl Send for A {}"), [UnsafeKind::Impl]);
        assert_eq!(kinds("pub unsafe fn f() {}"), [UnsafeKind::Contract]);
        assert_eq!(
            kinds("unsafe extern \"C\" fn f() {}"),
            [UnsafeKind::Contract]
        );
        assert_eq!(kinds("unsafe trait T {}"), [UnsafeKind::Contract]);
        assert_eq!(
            kinds("unsafe extern \"C\" { fn f(); }"),
            [UnsafeKind::Block]
        );
        assert_eq!(
            kinds("struct S { f: unsafe extern \"C\" fn(u8) }"),
            [UnsafeKind::PointerType]
        );
        assert_eq!(kinds("type F = unsafe fn();"), [UnsafeKind::PointerType]);
        assert_eq!(
            kinds("#[unsafe(no_mangle)] fn f() {}"),
            [UnsafeKind::Attribute]
        );
    }

    #[test]
    fn words_in_comments_and_strings_are_not_code() {
        assert_eq!(
            kinds("// unsafe { }\n/// unsafe\nfn f() { \"unsafe\"; r#\"unsafe\"#; }"),
            []
        );
    }

    #[test]
    fn unsafe_in_a_macro_body_counts() {
        assert_eq!(
            kinds("macro_rules! m { () => { unsafe { f() } } }"),
            [UnsafeKind::Block]
        );
    }

    #[test]
    fn test_modules_and_functions_are_test_lines() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  // x\n}\nfn b() {}\n#[test]\nfn c() {\n}\n#[cfg(not(test))]\nfn d() {}\n";
        let source = RustSource::parse(text).unwrap();
        let lines: Vec<usize> = (1..=11).filter(|&line| source.is_test_line(line)).collect();
        assert_eq!(lines, [2, 3, 4, 5, 7, 8, 9]);
    }

    #[test]
    fn an_allowance_needs_its_reason() {
        let reasons = |text| {
            RustSource::parse(text)
                .unwrap()
                .unsafe_allowances
                .iter()
                .map(|a| a.has_reason)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            reasons("#![allow(unsafe_code, reason = \"memory of another process\")]"),
            [true]
        );
        assert_eq!(
            reasons("#[allow(unsafe_code, reason = \"\")] fn f() {}"),
            [false]
        );
        assert_eq!(reasons("#[expect(unsafe_code)] fn f() {}"), [false]);
        assert!(reasons("#[allow(dead_code)] fn f() {}").is_empty());
    }
}
