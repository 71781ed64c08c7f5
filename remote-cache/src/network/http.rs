//! Entries behind HTTP: `GET` and `PUT` of one URL each. WebDAV adds collections, which are created with `MKCOL`.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ureq::http::{HeaderValue, Method, Request, StatusCode, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};
use url::Url;

use crate::credentials::Credentials;
use crate::entry::{HEADER, LARGEST};
use crate::error::StoreError;
use crate::network::forward_proxy;
use crate::store::Store;

/// How names become paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All in one place, as servers of Bazel's cache require.
    Flat,
    /// In 256 collections, because some servers keep them as folders.
    Collections,
}

/// Entries below a URL.
pub struct HttpStore {
    base: Url,
    layout: Layout,
    authorization: Option<HeaderValue>,
    client: Client,
}

impl fmt::Debug for HttpStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HttpStore({})", self.base)
    }
}

impl HttpStore {
    /// A server of WebDAV, or one that makes whatever it needs for a path.
    pub fn new(base: Url, layout: Layout, credentials: &Credentials, limit: Duration) -> Self {
        HttpStore { base, layout, authorization: authorization(credentials), client: Client::new(limit) }
    }

    fn url(&self, name: &str) -> String {
        match (self.layout, name.split_at_checked(2)) {
            (Layout::Collections, Some((collection, rest))) => format!("{}{collection}/{rest}", self.base),
            _ => format!("{}{name}", self.base),
        }
    }

    fn request(&self, method: Method, url: &str) -> ureq::http::request::Builder {
        let request = Request::builder().method(method).uri(url);
        match &self.authorization {
            Some(value) => request.header("Authorization", value),
            None => request,
        }
    }

    /// Creates the collections of a path. That one exists already is an error to the server, but not here: the `PUT` after this one
    /// decides.
    fn make_collections(&self, name: &str) -> Result<(), StoreError> {
        let Ok(method) = Method::from_bytes(b"MKCOL") else { return Ok(()) };
        let base = self.base.path().trim_matches('/');
        let mut path = String::from("/");
        for part in base.split('/').chain(name.get(..2)).filter(|part| !part.is_empty()) {
            path += part;
            path.push('/');
            let mut url = self.base.clone();
            url.set_path(&path);
            self.client.status(self.request(method.clone(), url.as_str()), &[])?;
        }
        Ok(())
    }
}

impl Store for HttpStore {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.client.get(self.request(Method::GET, &self.url(name)))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let url = self.url(name);
        let put = || self.client.status(self.request(Method::PUT, &url), bytes);
        let mut status = put()?;
        if self.layout == Layout::Collections && may_lack_collection(status) {
            self.make_collections(name)?;
            status = put()?;
        }
        check_put(status)
    }
}

/// `None`: the environment has no credentials.
fn authorization(credentials: &Credentials) -> Option<HeaderValue> {
    let text = match credentials {
        Credentials { token: Some(token), .. } => format!("Bearer {token}"),
        Credentials { user: None, password: None, token: None } => return None,
        Credentials { user, password, token: None } => {
            let pair = format!("{}:{}", user.as_deref().unwrap_or_default(), password.as_deref().unwrap_or_default());
            format!("Basic {}", BASE64_STANDARD.encode(pair))
        }
    };
    // The token was checked when it was read, and nothing else is left as it was.
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether a `PUT` may have failed because its collection is missing. That is 409 in the standard, and 500 with nginx.
fn may_lack_collection(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::INTERNAL_SERVER_ERROR
    )
}

/// Whether a `PUT` has stored its body.
pub fn check_put(status: StatusCode) -> Result<(), StoreError> {
    match status.as_u16() {
        200..=299 => Ok(()),
        413 => Err(StoreError::Full("HTTP 413, it accepts no entry of this size".to_owned())),
        507 => Err(StoreError::Full("HTTP 507".to_owned())),
        _ => Err(failure(status)),
    }
}

fn failure(status: StatusCode) -> StoreError {
    match status.as_u16() {
        code @ 401 => StoreError::Denied(code, "set the variables with the credentials of this store"),
        code @ 403 => {
            StoreError::Denied(code, "check the credentials in the environment, and what they permit in this store")
        }
        code @ 405 => StoreError::Denied(code, "the server permits no such request here"),
        code @ 300..=399 => StoreError::Answer(format!("HTTP {code}, and redirections are not followed")),
        _ => StoreError::Answer(format!("HTTP {status}")),
    }
}

/// A client with a pool of connections. It is made at the first request: reading the certificates of the system takes time.
pub struct Client {
    agent: OnceLock<Agent>,
    limit: Duration,
}

impl Client {
    /// A client whose requests may take this time, each.
    pub fn new(limit: Duration) -> Self {
        Client { agent: OnceLock::new(), limit }
    }

    /// All requests of a client are for URLs of one scheme.
    fn agent(&self, uri: &Uri) -> &Agent {
        self.agent.get_or_init(|| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
            let tls = tls.unversioned_rustls_crypto_provider(provider);
            let config = Agent::config_builder()
                .timeout_global(Some(self.limit))
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .allow_non_standard_methods(true)
                .max_idle_connections_per_host(16)
                .max_idle_connections(16)
                .user_agent(concat!("fatlink/", env!("CARGO_PKG_VERSION")))
                .tls_config(tls.build());
            match forward_proxy::of_environment(uri) {
                Some(proxy) => forward_proxy::agent(config.proxy(None).build(), proxy),
                None => Agent::new_with_config(config.build()),
            }
        })
    }

    /// Returns the body of the answer, or `None` if there is no such thing.
    pub fn get(&self, request: ureq::http::request::Builder) -> Result<Option<Vec<u8>>, StoreError> {
        let request = request.body(()).map_err(|error| self.error(error.into()))?;
        self.retried(|| {
            let answer = self.agent(request.uri()).run(request.clone()).map_err(|error| self.error(error))?;
            match answer.status() {
                StatusCode::OK => self.read(answer.into_body()).map(Some),
                StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
                status => Err(failure(status)),
            }
        })
    }

    /// Sends bytes and returns the status of the answer.
    pub fn status(&self, request: ureq::http::request::Builder, bytes: &[u8]) -> Result<StatusCode, StoreError> {
        let request = request.body(()).map_err(|error| self.error(error.into()))?;
        self.retried(|| {
            let (parts, ()) = request.clone().into_parts();
            let request = Request::from_parts(parts, bytes);
            let answer = self.agent(request.uri()).run(request).map_err(|error| self.error(error))?;
            Ok(answer.status())
        })
    }

    /// Tries again once after a broken connection: a server may close one that is idle just when it is used again.
    fn retried<T>(&self, request: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
        match request() {
            Err(StoreError::Io(error))
                if matches!(
                    error.kind(),
                    BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof
                ) =>
            {
                request()
            }
            done => done,
        }
    }

    fn read(&self, mut body: Body) -> Result<Vec<u8>, StoreError> {
        let most = LARGEST + HEADER as u64;
        body.with_config().limit(most).read_to_vec().map_err(|error| self.error(error))
    }

    /// Texts of the library may contain a signed URL, so only kinds are taken over.
    fn error(&self, error: ureq::Error) -> StoreError {
        match error {
            ureq::Error::Timeout(_) => StoreError::Timeout(self.limit),
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => StoreError::Timeout(self.limit),
            ureq::Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(tls) => StoreError::Tls(tls.to_string()),
                None => StoreError::Io(error),
            },
            ureq::Error::HostNotFound => StoreError::NoHost,
            ureq::Error::ConnectionFailed => StoreError::Io(std::io::ErrorKind::ConnectionRefused.into()),
            ureq::Error::BodyExceedsLimit(_) => StoreError::TooLarge(LARGEST),
            ureq::Error::Tls(text) => StoreError::Tls(text.to_owned()),
            ureq::Error::Rustls(error) => StoreError::Tls(error.to_string()),
            ureq::Error::Protocol(error) => StoreError::Protocol(error.to_string()),
            ureq::Error::LargeResponseHeader(..) => StoreError::Protocol("its header is too large".to_owned()),
            ureq::Error::ConnectProxyFailed(_) | ureq::Error::InvalidProxyUrl => {
                StoreError::Answer("nothing: the proxy that the environment names does not work".to_owned())
            }
            _ => StoreError::Protocol("it is no answer of HTTP".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_names() {
        let base = Url::parse("http://cache/a/").unwrap();
        let limit = Duration::from_secs(1);
        let plain = HttpStore::new(base.clone(), Layout::Flat, &Credentials::default(), limit);
        assert_eq!(plain.url("abcdef"), "http://cache/a/abcdef");
        let dav = HttpStore::new(base, Layout::Collections, &Credentials::default(), limit);
        assert_eq!(dav.url("abcdef"), "http://cache/a/ab/cdef");
    }

    #[test]
    fn credentials_are_sent_and_not_printed() {
        let of = |user: Option<&str>, password: Option<&str>, token: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            authorization(&Credentials { user: own(user), password: own(password), token: own(token) })
        };
        assert_eq!(of(None, None, None), None);
        let basic = of(Some("user"), Some("pass"), None).unwrap();
        assert_eq!(basic.to_str().unwrap(), "Basic dXNlcjpwYXNz");
        assert_eq!(format!("{basic:?}"), "Sensitive");
        assert_eq!(of(Some("user"), Some("pass"), Some("t")).unwrap().to_str().unwrap(), "Bearer t");
    }
}
