//! The public names of a crate and their docs, by the tokens of its files.

use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::{fs, vec};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::files::Sources;

/// A public name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) file: String,
    /// The type or the trait that the name belongs to.
    pub(crate) owner: Option<String>,
    pub(crate) name: String,
    pub(crate) docs: String,
}

impl Name {
    /// The name of the page of docs that lists this name.
    pub(super) fn page(&self) -> &str {
        self.owner.as_deref().unwrap_or(&self.name)
    }

    /// Whether the text names the type, and no parameter of a macro stands for it.
    pub(super) fn has_known_owner(&self) -> bool {
        !self.owner.as_deref().is_some_and(|owner| owner.starts_with('$'))
    }

    /// The path within its file.
    pub(crate) fn path(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{owner}::{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The public names of the package in this folder.
pub(crate) fn names(package: &Path, sources: &Sources) -> Vec<Name> {
    let mut names = Vec::new();
    for (file, text) in sources {
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        let folder = package.join("src").join(file).parent().unwrap().to_owned();
        let mut reader = Reader { file, folder, sources, names: &mut names };
        reader.read(tokens, &Around::default());
    }
    names
}

struct Reader<'a> {
    file: &'a str,
    folder: PathBuf,
    sources: &'a Sources,
    names: &'a mut Vec<Name>,
}

/// What is around a sequence of tokens.
#[derive(Clone, Default)]
struct Around {
    /// The type or the trait whose members these are.
    owner: Option<String>,
    /// Whether every member is public.
    is_trait: bool,
}

type Tokens = Peekable<vec::IntoIter<TokenTree>>;

impl Reader<'_> {
    fn read(&mut self, tokens: TokenStream, around: &Around) {
        let mut tokens = tokens.into_iter().collect::<Vec<_>>().into_iter().peekable();
        let (mut docs, mut is_public, mut is_test) = (String::new(), false, false);
        let mut has_docs_elsewhere = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(sign) if sign.as_char() == '#' => {
                    is_test |= self.attribute(&mut tokens, &mut docs);
                    continue;
                }
                TokenTree::Punct(sign) if sign.as_char() == '$' && is_repeated(&mut tokens) => {
                    has_docs_elsewhere = true;
                    continue;
                }
                TokenTree::Ident(word) if word == "pub" => {
                    let restricted = is_group(tokens.peek(), Delimiter::Parenthesis);
                    is_public = !restricted;
                    if restricted {
                        tokens.next();
                    }
                    continue;
                }
                TokenTree::Ident(word) if is_prefix(&word.to_string(), tokens.peek()) => continue,
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    if is_test && is_item(&word) {
                        skip(&mut tokens);
                    } else {
                        let public = (is_public || around.is_trait) && !has_docs_elsewhere;
                        self.item(&word, &mut tokens, (public, &docs), around);
                    }
                }
                TokenTree::Group(group) => self.read(group.stream(), &Around::default()),
                _ => {}
            }
            (docs, is_public, is_test) = (String::new(), false, false);
            has_docs_elsewhere = false;
        }
    }

    /// Reads an attribute after its `#`. Returns whether it is `cfg(test)`.
    fn attribute(&self, tokens: &mut Tokens, docs: &mut String) -> bool {
        let is_inner = matches!(tokens.peek(), Some(TokenTree::Punct(it)) if it.as_char() == '!');
        if is_inner {
            tokens.next();
        }
        let Some(TokenTree::Group(group)) = tokens.peek().cloned() else { return false };
        tokens.next();
        if !is_inner {
            docs.push_str(&self.doc(group.stream()).unwrap_or_default());
        }
        group.stream().to_string() == "cfg (test)" || group.stream().to_string() == "cfg(test)"
    }

    /// The text of an attribute `doc = …`, with that of a file that it includes.
    fn doc(&self, attribute: TokenStream) -> Option<String> {
        let tokens: Vec<TokenTree> = attribute.into_iter().collect();
        let [TokenTree::Ident(name), _, value @ ..] = &tokens[..] else { return None };
        if name != "doc" {
            return None;
        }
        match value {
            [TokenTree::Literal(text)] => Some(line(&text.to_string())),
            [TokenTree::Ident(_), _, TokenTree::Group(path)] => {
                let path = syn::parse2::<syn::LitStr>(path.stream()).ok()?;
                Some(fs::read_to_string(self.folder.join(path.value())).unwrap())
            }
            _ => None,
        }
    }

    /// Reads an item after its first word.
    fn item(
        &mut self,
        word: &str,
        tokens: &mut Tokens,
        (public, docs): (bool, &str),
        around: &Around,
    ) {
        match word {
            "impl" => {
                let (owner, body) = implemented(tokens);
                if let Some(body) = body {
                    self.read(body, &Around { owner, is_trait: false });
                }
            }
            "trait" | "struct" | "enum" | "union" | "type" | "const" | "static" | "fn" | "mod" => {
                let Some(name) = name(tokens) else { return };
                let docs = if word == "mod" { self.module(&name, docs) } else { docs.to_owned() };
                if public {
                    let (file, owner) = (self.file.to_owned(), around.owner.clone());
                    self.names.push(Name { file, owner, name: name.clone(), docs });
                }
                match (word, skip(tokens)) {
                    ("trait", Some(body)) => {
                        let owner = Some(name);
                        self.read(body, &Around { owner, is_trait: public });
                    }
                    ("mod", Some(body)) if public => self.read(body, &Around::default()),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// The docs of a module: these, and those at the begin of its file.
    fn module(&self, name: &str, docs: &str) -> String {
        let folder = match self.file.strip_suffix("lib.rs").or(self.file.strip_suffix("mod.rs")) {
            Some(folder) => folder.to_owned(),
            None => format!("{}/", self.file.trim_end_matches(".rs")),
        };
        let files = ["", "/mod"].map(|end| format!("{folder}{name}{end}.rs"));
        let text = files.iter().find_map(|file| self.sources.get(file));
        let inner =
            text.into_iter().flat_map(|it| it.lines()).filter_map(|it| it.strip_prefix("//!"));
        inner.fold(docs.to_owned(), |docs, line| docs + line.trim_start() + "\n")
    }
}

/// Whether these are attributes that a macro takes as a parameter, `$(#[$doc])*` after its first sign. Goes to
/// their end.
fn is_repeated(tokens: &mut Tokens) -> bool {
    let Some(TokenTree::Group(group)) = tokens.peek() else { return false };
    let mut inside = group.stream().into_iter();
    let is = matches!(inside.next(), Some(TokenTree::Punct(sign)) if sign.as_char() == '#');
    if is {
        tokens.nth(1);
    }
    is
}

/// Whether the word only says more about the item after it.
fn is_prefix(word: &str, next: Option<&TokenTree>) -> bool {
    let before_fn = matches!(next, Some(TokenTree::Ident(it)) if it == "fn" || it == "async");
    matches!(word, "async" | "unsafe" | "default") || (word == "const" && before_fn)
}

fn is_item(word: &str) -> bool {
    let words = ["impl", "trait", "struct", "enum", "type", "const", "static", "fn", "mod", "use"];
    words.contains(&word)
}

/// The next name, perhaps as the parameter of a macro.
fn name(tokens: &mut Tokens) -> Option<String> {
    match tokens.peek()? {
        TokenTree::Punct(sign) if sign.as_char() == '$' => {
            tokens.next();
            name(tokens).map(|name| format!("${name}"))
        }
        TokenTree::Ident(name) => {
            let name = name.to_string();
            tokens.next();
            Some(name)
        }
        _ => None,
    }
}

/// Goes to the end of an item, and returns its body.
fn skip(tokens: &mut Tokens) -> Option<TokenStream> {
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                return Some(group.stream());
            }
            TokenTree::Punct(sign) if sign.as_char() == ';' => return None,
            _ => {}
        }
    }
    None
}

/// The type of an `impl` without a trait, and its body.
fn implemented(tokens: &mut Tokens) -> (Option<String>, Option<TokenStream>) {
    let (mut depth, mut owner, mut before) = (0, None, ' ');
    let (mut is_over, mut parameter) = (false, false);
    for token in tokens.by_ref() {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                return (owner, Some(group.stream()));
            }
            TokenTree::Punct(sign) => {
                match sign.as_char() {
                    '<' => depth += 1,
                    '>' if before != '-' => depth -= 1,
                    ';' => return (None, None),
                    _ => {}
                }
                parameter = sign.as_char() == '$';
                before = sign.as_char();
            }
            TokenTree::Ident(word) if depth == 0 && !is_over => match word.to_string().as_str() {
                // The members of a trait have their names and docs from the trait.
                "for" => {
                    skip(tokens);
                    return (None, None);
                }
                "where" => is_over = true,
                name => {
                    owner = Some(if parameter { format!("${name}") } else { name.to_owned() });
                    parameter = false;
                }
            },
            _ => parameter = false,
        }
    }
    (None, None)
}

fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(it)) if it.delimiter() == delimiter)
}

/// A line of docs, from its literal.
fn line(literal: &str) -> String {
    let text = syn::parse_str::<syn::LitStr>(literal).map(|it| it.value()).unwrap_or_default();
    text.strip_prefix(' ').unwrap_or(&text).to_owned() + "\n"
}
