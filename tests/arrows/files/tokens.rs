//! The paths among the tokens of a macro, which may mean anything.

use proc_macro2::{Spacing, TokenStream, TokenTree};

pub(super) enum Word {
    Path(Vec<String>),
    Macro(Vec<String>),
    Method(String),
}

/// Every sequence of names that may be a path.
pub(super) fn words(tokens: TokenStream) -> Vec<Word> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut words = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let from = at;
        at += 1;
        match &tokens[from] {
            TokenTree::Group(group) => words.extend(self::words(group.stream())),
            TokenTree::Ident(name) => {
                let mut path = vec![plain(name)];
                while let Some(next) = after_colons(&tokens, at) {
                    path.push(next);
                    at += 3;
                }
                words.extend(word(&tokens[..from], path, is_sign(tokens.get(at), '!')));
            }
            _ => {}
        }
    }
    words
}

fn word(before: &[TokenTree], path: Vec<String>, bang: bool) -> Option<Word> {
    let last = before.last();
    let sign = |nth: usize, sign| {
        let at = before.len().checked_sub(nth);
        is_sign(at.and_then(|at| before.get(at)), sign)
    };
    if sign(1, '.') && !sign(2, '.') {
        return path.into_iter().next().map(Word::Method);
    }
    let is_variable = sign(1, '$') && path[0] != "crate";
    if is_variable || is_sign(last, '\'') || (sign(1, ':') && sign(2, ':')) {
        return None;
    }
    Some(if bang { Word::Macro(path) } else { Word::Path(path) })
}

/// The name that follows `::` at this place.
fn after_colons(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at..at + 3)? {
        [TokenTree::Punct(first), second, TokenTree::Ident(name)] => {
            let joint = first.as_char() == ':' && first.spacing() == Spacing::Joint;
            (joint && is_sign(Some(second), ':')).then(|| plain(name))
        }
        _ => None,
    }
}

fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(it)) if it.as_char() == sign)
}

fn plain(name: &proc_macro2::Ident) -> String {
    let name = name.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}
