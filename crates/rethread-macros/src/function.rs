//! What `#[tool]` reads of a function.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{
    Attribute, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Meta, Pat, PatType, ReturnType,
    Safety, Signature, Token, Type,
};

use crate::options::{Mistakes, Options};

/// The longest name all providers take.
const MAX_NAME: usize = 64;

/// What is known of the function.
pub(crate) struct Function {
    /// What the model knows it by.
    pub(crate) name: LitStr,
    /// What the model is told it does.
    pub(crate) description: LitStr,
    /// The type of the first parameter, if that is the context.
    pub(crate) context: Option<Type>,
    /// What the model fills in.
    pub(crate) parameters: Vec<Parameter>,
    /// The prompt that asks for leave: texts, each with the wire name of the argument after it.
    pub(crate) ask: Option<Vec<(String, Option<String>)>>,
}

/// A parameter that the model fills in.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    /// Attributes that belong on the field: docs, `serde`, `schemars`.
    pub(crate) attributes: Vec<Attribute>,
}

impl Parameter {
    /// Whether an attribute says how to read it, so that the type alone does not.
    pub(crate) fn is_custom(&self) -> bool {
        self.attributes.iter().any(|a| !a.path().is_ident("doc"))
    }

    /// The name the model uses.
    fn wire_name(&self) -> String {
        let mut name = self.name.unraw().to_string();
        for attribute in &self.attributes {
            if attribute.path().is_ident("serde") {
                // Whatever else stands there is for serde to judge.
                let _ = attribute.parse_nested_meta(|meta| {
                    if meta.path.is_ident("rename") {
                        name = meta.value()?.parse::<LitStr>()?.value();
                    } else if meta.input.peek(Token![=]) {
                        meta.value()?.parse::<Expr>()?;
                    }
                    Ok(())
                });
            }
        }
        name
    }
}

impl Function {
    /// Reads the function. Takes from it what a function may not have: docs of parameters.
    pub(crate) fn read(item: &mut ItemFn, options: &Options, mistakes: &mut Mistakes) -> Self {
        signature(&item.sig, mistakes);
        let (context, parameters) = parameters(&mut item.sig, mistakes);
        let ask = options
            .ask
            .as_ref()
            .map(|prompt| pieces(prompt, &parameters, mistakes));
        Self {
            name: name(&item.sig.ident, options, mistakes),
            description: description(item, options, mistakes),
            context,
            parameters,
            ask,
        }
    }
}

fn name(function: &Ident, options: &Options, mistakes: &mut Mistakes) -> LitStr {
    let name = options
        .name
        .clone()
        .unwrap_or_else(|| LitStr::new(&function.unraw().to_string(), function.span()));
    let value = name.value();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if value.len() > MAX_NAME || !value.chars().all(is_allowed) {
        let message = format!(
            "`{value}` is no name for a tool: providers take letters, digits, `_` and `-`, at most \
             {MAX_NAME}; write another one as `name = \"…\"`"
        );
        mistakes.add(&name, message);
    }
    name
}

fn description(item: &ItemFn, options: &Options, mistakes: &mut Mistakes) -> LitStr {
    let function = &item.sig.ident;
    if let Some(description) = &options.description {
        return description.clone();
    }
    let lines: Vec<String> = item.attrs.iter().filter_map(doc_line).collect();
    let text = lines.join("\n");
    let text = text.trim();
    if text.is_empty() {
        mistakes.add(
            function,
            "a tool needs a description for the model: write a doc comment above it, \
             `/// What it does and when to use it.`",
        );
    }
    LitStr::new(text, function.span())
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    match &pair.value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) if pair.path.is_ident("doc") => {
            let line = text.value();
            Some(line.strip_prefix(' ').unwrap_or(&line).to_owned())
        }
        _ => None,
    }
}

/// What no tool may be.
fn signature(signature: &Signature, mistakes: &mut Mistakes) {
    let generics = &signature.generics;
    if !generics.params.is_empty() || generics.where_clause.is_some() {
        let at = match generics.params.is_empty() {
            true => generics.where_clause.to_token_stream(),
            false => generics.params.to_token_stream(),
        };
        mistakes.add(
            at,
            "a tool has no generic parameters: a model fills in its arguments, so name their types",
        );
    }
    if !matches!(signature.safety, Safety::Default) {
        mistakes.add(&signature.safety, "a tool is a safe function");
    }
    if let Some(abi) = &signature.abi {
        mistakes.add(abi, "a tool is a Rust function: remove this");
    }
    if let Some(variadic) = &signature.variadic {
        mistakes.add(
            variadic,
            "a tool has a fixed number of parameters; take a `Vec`",
        );
    }
    if let ReturnType::Type(_, ty) = &signature.output
        && has(ty.to_token_stream(), &|token| is_ident(token, "impl"))
    {
        mistakes.add(ty, "a tool names the type it gives back, such as `String`");
    }
}

fn parameters(
    signature: &mut Signature,
    mistakes: &mut Mistakes,
) -> (Option<Type>, Vec<Parameter>) {
    let mut context = None;
    let mut parameters = Vec::new();
    for (index, input) in signature.inputs.iter_mut().enumerate() {
        let input = match input {
            FnArg::Typed(input) => input,
            FnArg::Receiver(receiver) => {
                mistakes.add(
                    receiver,
                    "a tool is a free function: remove `self`; what it needs besides its arguments \
                     can be captured by a closure, see `tool_fn`",
                );
                continue;
            }
        };
        if is_context(&input.ty) {
            match (index, &*input.ty) {
                (0, Type::Reference(_)) => {
                    mistakes.add(&input.ty, "a tool owns its context: write `ToolContext`")
                }
                (0, ty) => context = Some(ty.clone()),
                _ => mistakes.add(
                    input,
                    "the context comes first: make this the first parameter",
                ),
            }
        } else if let Some(parameter) = parameter(input, mistakes) {
            parameters.push(parameter);
        }
    }
    (context, parameters)
}

/// Whether a type is called `ToolContext`, wherever it comes from.
fn is_context(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|segment| segment.ident == "ToolContext"),
        Type::Reference(reference) => is_context(&reference.elem),
        _ => false,
    }
}

fn parameter(input: &mut PatType, mistakes: &mut Mistakes) -> Option<Parameter> {
    let is_of_field = |attribute: &Attribute| {
        let path = attribute.path();
        path.is_ident("doc") || path.is_ident("serde") || path.is_ident("schemars")
    };
    let attributes = std::mem::take(&mut input.attrs);
    let (attributes, rest) = attributes.into_iter().partition(is_of_field);
    input.attrs = rest;

    let name = match &*input.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat.ident.clone(),
        pat => {
            mistakes.add(
                pat,
                "a parameter of a tool needs a plain name, which the model uses: write \
                 `name: Type` and take it apart in the body",
            );
            return None;
        }
    };
    let ty = &*input.ty;
    let tokens = ty.to_token_stream();
    if has(tokens.clone(), &|token| is_ident(token, "impl")) {
        let message = format!("name the type of `{name}`: a model fills it in");
        mistakes.add(ty, message);
    } else if has(tokens, &|token| is_punct(token, '&')) {
        let message = match owned(ty) {
            Some(owned) => format!("a tool owns its arguments: write `{name}: {owned}`"),
            None => format!("a tool owns its arguments: give `{name}` a type without references"),
        };
        mistakes.add(ty, message);
    }
    Some(Parameter {
        name,
        ty: ty.clone(),
        attributes,
    })
}

/// The owned type to write instead of a reference.
fn owned(ty: &Type) -> Option<String> {
    let Type::Reference(reference) = ty else {
        return None;
    };
    let target = match &*reference.elem {
        Type::Slice(slice) => format!("Vec<{}>", slice.elem.to_token_stream()),
        other => other.to_token_stream().to_string(),
    };
    let target = match target.as_str() {
        "str" => "String",
        "Path" => "PathBuf",
        other => other,
    };
    (!target.contains('&')).then(|| target.to_owned())
}

/// Whether a token fits, at any depth.
fn has(tokens: TokenStream, fits: &dyn Fn(&TokenTree) -> bool) -> bool {
    tokens.into_iter().any(|token| match &token {
        TokenTree::Group(group) => has(group.stream(), fits),
        _ => fits(&token),
    })
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

/// Takes a prompt apart: `{name}` is an argument, `{{` and `}}` are braces.
fn pieces(
    prompt: &LitStr,
    parameters: &[Parameter],
    mistakes: &mut Mistakes,
) -> Vec<(String, Option<String>)> {
    let value = prompt.value();
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut chars = value.chars().peekable();
    while let Some(char) = chars.next() {
        if matches!(char, '{' | '}') && chars.next_if_eq(&char).is_some() {
            text.push(char);
        } else if char == '{' {
            let name: String = chars.by_ref().take_while(|c| *c != '}').collect();
            match parameters.iter().find(|p| p.name.unraw() == name.as_str()) {
                Some(known) => pieces.push((std::mem::take(&mut text), Some(known.wire_name()))),
                None => mistakes.add(prompt, unknown_parameter(&name, parameters)),
            }
        } else {
            text.push(char);
        }
    }
    if !text.is_empty() {
        pieces.push((text, None));
    }
    pieces
}

fn unknown_parameter(name: &str, parameters: &[Parameter]) -> String {
    let known: Vec<String> = parameters
        .iter()
        .map(|parameter| format!("`{{{}}}`", parameter.name.unraw()))
        .collect();
    let known = match known.is_empty() {
        true => "there is none".to_owned(),
        false => format!("there is {}", known.join(", ")),
    };
    format!("`{{{name}}}` is no parameter: {known}; a brace is written `{{{{`")
}
