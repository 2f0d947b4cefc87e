//! The code `#[tool]` makes.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Ident, ItemFn, LitStr, ReturnType, Type, Visibility, parse_quote};

use crate::function::{Function, Parameter};
use crate::options::{Mistakes, Options, Repeat};

pub(crate) fn tool(options: TokenStream, tokens: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let options = Options::parse(options, &mut mistakes);
    let private = private(&options);
    let mut item: ItemFn = match syn::parse2(tokens.clone()) {
        Ok(item) => item,
        Err(error) => return not_a_function(&error, tokens),
    };
    let function = Function::read(&mut item, &options, &mut mistakes);
    match mistakes.into_error() {
        Some(error) => refused(&error, &item, &private),
        None => accepted(&item, &function, &options, &private),
    }
}

/// The path of what the generated code uses.
fn private(options: &Options) -> TokenStream {
    match &options.crate_path {
        Some(path) => quote!(#path::__private),
        None => quote!(::rethread::__private),
    }
}

fn not_a_function(error: &Error, tokens: TokenStream) -> TokenStream {
    // Another item is a misplaced attribute; a broken function keeps the parser's own words.
    let error = match syn::parse2::<syn::Item>(tokens.clone()) {
        Ok(item) => Error::new_spanned(
            item,
            "`#[tool]` goes on a function: `async fn name(argument: String) -> String`",
        ),
        Err(_) => error.clone(),
    };
    let error = error.into_compile_error();
    quote!(#error #tokens)
}

/// The errors, and a tool that does nothing in place of the function, so that its uses are not
/// errors too.
fn refused(error: &Error, item: &ItemFn, private: &TokenStream) -> TokenStream {
    let error = error.to_compile_error();
    if item.sig.receiver().is_some() {
        // Inside an `impl` there is no place for a value.
        return quote!(#error #item);
    }
    let value = value(item, &quote!(#[allow(missing_docs)]));
    let name = &item.sig.ident;
    quote! {
        #error
        #value
        impl #private::Tool for #name {
            fn spec(&self) -> &#private::ToolSpec {
                ::core::unreachable!()
            }
            fn call<'a>(
                &'a self,
                _: #private::ToolContext,
                _: #private::Json,
            ) -> #private::BoxFuture<
                'a,
                ::core::result::Result<#private::ToolOutput, #private::ToolError>,
            > {
                ::core::unreachable!()
            }
        }
    }
}

/// The value that stands for the function.
fn value(item: &ItemFn, attributes: &TokenStream) -> TokenStream {
    let (visibility, name): (&Visibility, &Ident) = (&item.vis, &item.sig.ident);
    quote! {
        #attributes
        #[allow(non_camel_case_types)]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        #visibility struct #name;
    }
}

fn accepted(
    item: &ItemFn,
    function: &Function,
    options: &Options,
    private: &TokenStream,
) -> TokenStream {
    let of_value = |a: &&Attribute| {
        let path = a.path();
        path.is_ident("doc") || path.is_ident("cfg") || path.is_ident("deprecated")
    };
    let docs = item.attrs.iter().filter(of_value);
    let value = value(item, &quote!(#(#docs)*));
    let cfg: Vec<_> = item
        .attrs
        .iter()
        .filter(|a| a.path().is_ident("cfg"))
        .collect();

    // The function keeps its name, so that it can call itself and is found in a backtrace.
    let mut inner = item.clone();
    inner.attrs.retain(|a| !of_value(&a));
    inner.vis = Visibility::Inherited;
    if inner.sig.asyncness.is_some() {
        // A tool may be async for the sake of uniformity.
        inner
            .attrs
            .push(parse_quote!(#[allow(clippy::unused_async)]));
    }

    let name = &item.sig.ident;
    let arguments = arguments(&function.parameters, private);
    let spec = spec(function, options, private);
    let permission = permission(function, private);
    let call = call(item, function, private);
    let deref = deref(item, function, private);
    quote! {
        #value

        #(#cfg)*
        const _: () = {
            #inner
            #arguments

            #[automatically_derived]
            impl #private::Tool for #name {
                fn spec(&self) -> &#private::ToolSpec {
                    #spec
                }
                #permission
                fn call<'a>(
                    &'a self,
                    __context: #private::ToolContext,
                    __arguments: #private::Json,
                ) -> #private::BoxFuture<
                    'a,
                    ::core::result::Result<#private::ToolOutput, #private::ToolError>,
                > {
                    #call
                }
            }

            #deref
        };
    }
}

/// The struct the arguments are read into, and what is known of it.
///
/// The types are parameters of the struct, so that the derives make no errors of their own; that
/// they can be read is asked for once, by `__arguments`. An attribute of serde or schemars may
/// depend on the type, so such a field has it.
fn arguments(parameters: &[Parameter], private: &TokenStream) -> TokenStream {
    let mut fields = Vec::new();
    let (mut generics, mut types) = (Vec::new(), Vec::new());
    for (index, parameter) in parameters.iter().enumerate() {
        let (attributes, name, ty) = (&parameter.attributes, &parameter.name, &parameter.ty);
        if parameter.is_custom() {
            fields.push(quote!(#(#attributes)* #name: #ty));
        } else {
            let generic = format_ident!("__T{index}");
            fields.push(quote!(#(#attributes)* #name: #generic));
            types.push(ty);
            generics.push(generic);
        }
    }
    let path = |module: &str| {
        let path = format!("{private}::{module}").replace(' ', "");
        LitStr::new(&path, Span::call_site())
    };
    let (serde, schemars) = (path("serde"), path("schemars"));
    quote! {
        #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
        #[serde(crate = #serde, deny_unknown_fields)]
        #[schemars(crate = #schemars)]
        struct __Arguments<#(#generics),*> {
            #(#fields,)*
        }

        const fn __arguments<#(#generics: #private::ToolArgument),*>()
        -> #private::Arguments<__Arguments<#(#generics),*>> {
            #private::Arguments::new()
        }

        const __ARGUMENTS: #private::Arguments<__Arguments<#(#types),*>> =
            __arguments::<#(#types),*>();
    }
}

fn spec(function: &Function, options: &Options, private: &TokenStream) -> TokenStream {
    let Function {
        name, description, ..
    } = function;
    let serial = options.serial.then(|| quote!(.serial()));
    let repeat = match options.repeat {
        Repeat::Never => None,
        Repeat::IfNotStarted => Some(quote!(IfNotStarted)),
        Repeat::Always => Some(quote!(Always)),
    };
    let repeat = repeat.map(|repeat| quote!(.repeat(#private::Repeat::#repeat)));
    let timeout = options.timeout.as_ref();
    let timeout = timeout.map(|secs| quote!(.timeout(::core::time::Duration::from_secs(#secs))));
    quote! {
        static SPEC: ::std::sync::LazyLock<#private::ToolSpec> =
            ::std::sync::LazyLock::new(|| {
                #private::ToolSpec::new(#name, #description, __ARGUMENTS.parameters())
                    #serial #repeat #timeout
            });
        &SPEC
    }
}

fn permission(function: &Function, private: &TokenStream) -> Option<TokenStream> {
    let pieces = function.ask.as_ref()?.iter().map(|(text, argument)| {
        let argument = match argument {
            Some(name) => quote!(::core::option::Option::Some(#name)),
            None => quote!(::core::option::Option::None),
        };
        quote!((#text, #argument))
    });
    Some(quote! {
        fn permission(&self, __arguments: &#private::Json) -> #private::Permission {
            #private::ask(&[#(#pieces),*], __arguments)
        }
    })
}

/// The body of `Tool::call`.
fn call(item: &ItemFn, function: &Function, private: &TokenStream) -> TokenStream {
    let name = &item.sig.ident;
    let fields: Vec<&Ident> = function.parameters.iter().map(|p| &p.name).collect();
    // Fields may have any name but these, which no parameter is likely to.
    let context = function.context.iter().map(|_| quote!(__context));
    let inputs: Vec<TokenStream> = context
        .chain(fields.iter().map(|field| quote!(__read.#field)))
        .collect();
    // A value that is no output is an error where the function says what it gives back.
    let output = output(&item.sig.output);
    let into =
        quote_spanned!(output.span()=> <#output as #private::IntoToolOutput>::into_tool_output);
    let read = match fields.is_empty() {
        true => quote!(__ARGUMENTS.decode(&__arguments)?;),
        false => quote!(let __read = __ARGUMENTS.decode(&__arguments)?;),
    };
    let run = match item.sig.asyncness {
        // Through the value, so that a future that cannot be sent is one error, not two.
        Some(_) => quote!(#into((**self)(#(#inputs),*).await)),
        None => quote!(#private::blocking(move || #into(#name(#(#inputs),*))).await),
    };
    quote! {
        ::std::boxed::Box::pin(async move {
            #read
            #run
        })
    }
}

/// Lets the value be called like the function.
fn deref(item: &ItemFn, function: &Function, private: &TokenStream) -> TokenStream {
    let name = &item.sig.ident;
    let context = function.context.iter();
    let types: Vec<&Type> = context
        .chain(function.parameters.iter().map(|p| &p.ty))
        .collect();
    let names: Vec<Ident> = (0..types.len()).map(|i| format_ident!("__{i}")).collect();
    let output = output(&item.sig.output);
    let (output, call) = match item.sig.asyncness {
        Some(_) => (
            quote!(#private::BoxFuture<'static, #output>),
            quote!(::std::boxed::Box::pin(#name(#(#names),*))),
        ),
        None => (output.to_token_stream(), quote!(#name(#(#names),*))),
    };
    quote! {
        #[automatically_derived]
        impl ::core::ops::Deref for #name {
            type Target = fn(#(#types),*) -> #output;
            fn deref(&self) -> &Self::Target {
                const FUNCTION: fn(#(#types),*) -> #output = |#(#names),*| #call;
                &FUNCTION
            }
        }
    }
}

fn output(output: &ReturnType) -> Type {
    match output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, ty) => (**ty).clone(),
    }
}
