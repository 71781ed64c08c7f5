//! The connection to a server.

use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::arguments::Arguments;
use crate::error::Error;

/// A connection that sends the user's token with every request.
pub type Connection = InterceptedService<Channel, Authorization>;

/// How often the server is asked whether it is still there, and how long it may take to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The user's token.
#[derive(Debug, Clone)]
pub struct Authorization(Option<MetadataValue<Ascii>>);

impl Interceptor for Authorization {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// Connects to a server.
///
/// # Errors
/// The address is none, a file cannot be read, or nothing answers.
pub async fn connect(url: &str, arguments: &Arguments) -> Result<Connection, Error> {
    let token = arguments.token_file.as_ref().map(|file| token(file)).transpose()?;
    let channel = endpoint(url, arguments)?.connect().await;
    let channel = channel.map_err(|error| Error::Connect { url: url.to_owned(), reason: reasons(&error) })?;
    Ok(InterceptedService::new(channel, Authorization(token)))
}

fn endpoint(url: &str, arguments: &Arguments) -> Result<Endpoint, Error> {
    let unusable = || Error::Url { url: url.to_owned() };
    let (scheme, place) = url.split_once("://").ok_or_else(unusable)?;
    let (scheme, encrypted) = match scheme {
        "grpc" | "http" => ("http", false),
        "grpcs" | "https" => ("https", true),
        _ => return Err(unusable()),
    };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{place}")).map_err(|_| unusable())?;
    let endpoint = endpoint
        .connect_timeout(arguments.timeout)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    if !encrypted {
        return Ok(endpoint);
    }
    let mut tls = ClientTlsConfig::new().with_native_roots();
    if let Some(file) = &arguments.ca_file {
        let pem = std::fs::read(file).map_err(|source| Error::Read { file: file.clone(), source })?;
        tls = tls.ca_certificate(Certificate::from_pem(pem));
    }
    endpoint.tls_config(tls).map_err(|error| Error::Connect { url: url.to_owned(), reason: reasons(&error) })
}

fn token(file: &std::path::Path) -> Result<MetadataValue<Ascii>, Error> {
    let read = |source| Error::Read { file: file.to_owned(), source };
    let text = std::fs::read_to_string(file).map_err(read)?;
    let value = format!("Bearer {}", text.trim()).parse();
    value.map_err(|_| read(std::io::Error::other("it holds no token")))
}

/// An error with its causes, which tonic leaves out.
fn reasons(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}
