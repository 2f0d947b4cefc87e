//! The HTTP client: rustls with ring, the system's certificate authorities, no redirects.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, redirect};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// How often a silent connection is asked whether it still stands.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Builds a client for one address.
pub(super) fn build(base_url: &str, connect: Duration) -> Result<Client, String> {
    let mut builder = Client::builder()
        .user_agent(concat!("rethread/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls(base_url.starts_with("http://"))?)
        // A redirect would carry the key to wherever it points.
        .redirect(redirect::Policy::none())
        .connect_timeout(connect)
        .tcp_keepalive(KEEPALIVE);
    if is_loopback(base_url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| {
        format!(
            "the HTTP client cannot be built: {}",
            super::answer::chain(&error)
        )
    })
}

fn tls(plain: bool) -> Result<ClientConfig, String> {
    let failed = |error: rustls::Error| format!("TLS cannot be set up: {error}");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    Ok(if plain {
        // Reading the system's certificates takes longer than a whole call to a local server.
        builder
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth()
    } else {
        builder
            .with_platform_verifier()
            .map_err(failed)?
            .with_no_client_auth()
    })
}

fn is_loopback(base_url: &str) -> bool {
    let rest = base_url
        .split_once("://")
        .map_or(base_url, |(_, rest)| rest);
    let host = rest.split(['/', '?']).next().unwrap_or("");
    ["localhost", "127.", "[::1]"]
        .iter()
        .any(|local| host.starts_with(local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_stands_for_either_kind_of_address() {
        for url in ["http://127.0.0.1:1", "https://example.org"] {
            assert!(build(url, Duration::from_secs(1)).is_ok());
        }
        assert!(is_loopback("http://localhost:8080/v1") && is_loopback("http://[::1]:80"));
        assert!(!is_loopback("https://api.openai.com/localhost"));
    }
}
