//! What stands in the parentheses of `#[tool(…)]`.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, ExprPath, Lit, LitInt, LitStr, Meta, Path, Token};

const KNOWN: &str = "the options are `serial`, `repeat = \"if_not_started\"`, \
                     `timeout_secs = 30`, `ask = \"Run {command}?\"`, `name = \"…\"`, \
                     `description = \"…\"` and `crate = path`";

/// The options, still as they were written.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) serial: bool,
    pub(crate) repeat: Repeat,
    pub(crate) timeout: Option<LitInt>,
    pub(crate) ask: Option<LitStr>,
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) crate_path: Option<Path>,
}

#[derive(Clone, Copy, Default)]
pub(crate) enum Repeat {
    #[default]
    Never,
    IfNotStarted,
    Always,
}

/// Collects mistakes, so that all are told at once.
#[derive(Default)]
pub(crate) struct Mistakes(Option<Error>);

impl Mistakes {
    pub(crate) fn add(&mut self, at: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(at, message));
    }

    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    pub(crate) fn into_error(self) -> Option<Error> {
        self.0
    }
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut options = Self::default();
        match Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens) {
            Ok(metas) => {
                let mut seen = Vec::new();
                for meta in &metas {
                    let name = name_of(meta.path());
                    if seen.contains(&name) {
                        let message = format!("`{name}` is given twice; leave one out");
                        mistakes.add(meta, message);
                    }
                    if let Err(error) = options.set(&name, meta) {
                        mistakes.push(error);
                    }
                    seen.push(name);
                }
            }
            Err(error) => {
                let message = format!("this is no list of options ({error}); {KNOWN}");
                mistakes.push(Error::new(error.span(), message));
            }
        }
        options
    }

    fn set(&mut self, name: &str, meta: &Meta) -> Result<(), Error> {
        match name {
            "serial" => match meta {
                Meta::Path(_) => self.serial = true,
                _ => return Err(Error::new_spanned(meta, "write `serial` alone")),
            },
            "repeat" => self.repeat = repeat(meta)?,
            "timeout_secs" => self.timeout = Some(seconds(meta)?),
            "ask" => self.ask = Some(text(meta, "ask = \"Run {command}?\"")?),
            "name" => self.name = Some(text(meta, "name = \"write_file\"")?),
            "description" => {
                self.description = Some(text(meta, "description = \"Writes a file.\"")?);
            }
            "crate" => self.crate_path = Some(path(meta)?),
            _ => {
                let hint = match name {
                    "parallel" => "tools run in parallel unless they are `serial`; ",
                    "timeout" => "did you mean `timeout_secs`? ",
                    "approve" | "permission" | "confirm" => "did you mean `ask`? ",
                    "rename" => "did you mean `name`? ",
                    _ => "",
                };
                let message = format!("there is no option `{name}`: {hint}{KNOWN}");
                return Err(Error::new_spanned(meta.path(), message));
            }
        }
        Ok(())
    }
}

fn name_of(path: &Path) -> String {
    let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    names.join("::")
}

fn literal(meta: &Meta) -> Option<&Lit> {
    match meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit { lit, .. }) => Some(lit),
            _ => None,
        },
        _ => None,
    }
}

fn text(meta: &Meta, example: &str) -> Result<LitStr, Error> {
    match literal(meta) {
        Some(Lit::Str(text)) if !text.value().trim().is_empty() => Ok(text.clone()),
        _ => Err(Error::new_spanned(meta, format!("write `{example}`"))),
    }
}

fn repeat(meta: &Meta) -> Result<Repeat, Error> {
    let value = match literal(meta) {
        Some(Lit::Str(text)) => text.value(),
        _ => String::new(),
    };
    match value.as_str() {
        "never" => Ok(Repeat::Never),
        "if_not_started" => Ok(Repeat::IfNotStarted),
        "always" => Ok(Repeat::Always),
        _ => Err(Error::new_spanned(
            meta,
            "write `repeat = \"never\"` (the default), `repeat = \"if_not_started\"` (may be run \
             again if it had not started), or `repeat = \"always\"` (even if it may have run)",
        )),
    }
}

fn seconds(meta: &Meta) -> Result<LitInt, Error> {
    match literal(meta) {
        Some(Lit::Int(number)) if number.base10_parse::<u64>().is_ok_and(|n| n > 0) => {
            Ok(number.clone())
        }
        _ => Err(Error::new_spanned(
            meta,
            "write a whole number of seconds, at least 1: `timeout_secs = 30`",
        )),
    }
}

fn path(meta: &Meta) -> Result<Path, Error> {
    match meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Path(ExprPath { path, .. }) => Ok(path.clone()),
            _ => Err(Error::new_spanned(meta, "write `crate = path`")),
        },
        _ => Err(Error::new_spanned(meta, "write `crate = path`")),
    }
}
