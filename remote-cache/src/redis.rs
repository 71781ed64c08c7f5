//! Entries as strings of Redis. Four commands are needed, and four forms of replies, so that a client library would be larger
//! than this file; none of them limits both the time and the size of an answer.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::credentials::Credentials;
use crate::deadline::{Deadline, Stream};
use crate::entry::{HEADER, LARGEST};
use crate::error::StoreError;
use crate::reply::{self, Reply, ReplyError};
use crate::store::Store;

/// What the names of keys begin with: a server may hold other things, too.
const PREFIX: &str = "fatlink:";

/// Size of the buffer of a connection, in bytes.
const BUFFER: usize = 64 << 10;

/// Entries in a database.
pub struct RedisStore {
    host: String,
    port: u16,
    database: u32,
    secure: bool,
    credentials: Credentials,
    limit: Duration,
    tls: OnceLock<Option<Arc<ClientConfig>>>,
    /// Connections that no request uses.
    idle: Mutex<Vec<Connection>>,
}

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

struct Connection {
    stream: BufReader<Box<dyn Duplex>>,
    deadline: Deadline,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RedisStore({}:{}/{})", self.host, self.port, self.database)
    }
}

impl RedisStore {
    /// A server and the number of its database.
    pub fn new(host: &str, port: u16, database: u32, secure: bool, credentials: Credentials, limit: Duration) -> Self {
        RedisStore {
            host: host.to_owned(),
            port,
            database,
            secure,
            credentials,
            limit,
            tls: OnceLock::new(),
            idle: Mutex::default(),
        }
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let deadline = Deadline::after(self.limit);
        let stream = Stream::connect(&self.host, self.port, deadline.clone()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NoHost,
            _ => self.io(error),
        })?;
        let stream: Box<dyn Duplex> = if self.secure { Box::new(self.encrypted(stream)?) } else { Box::new(stream) };
        let mut connection = Connection { stream: BufReader::with_capacity(BUFFER, stream), deadline };
        let Credentials { user, password, .. } = &self.credentials;
        let logged_in = match (user, password) {
            (Some(user), Some(password)) => {
                self.send(&mut connection, &[b"AUTH", user.as_bytes(), password.as_bytes()])?
            }
            (None, Some(password)) => self.send(&mut connection, &[b"AUTH", password.as_bytes()])?,
            (_, None) => Reply::Status(String::new()),
        };
        expect_status(logged_in)?;
        if self.database != 0 {
            expect_status(self.send(&mut connection, &[b"SELECT", self.database.to_string().as_bytes()])?)?;
        }
        Ok(connection)
    }

    fn encrypted(&self, stream: Stream) -> Result<StreamOwned<ClientConnection, Stream>, StoreError> {
        let tls = |error: rustls::Error| StoreError::Tls(error.to_string());
        let configure = || {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
            Some(Arc::new(builder.with_platform_verifier().ok()?.with_no_client_auth()))
        };
        let config = self.tls.get_or_init(configure).clone();
        let config =
            config.ok_or_else(|| StoreError::Tls("the certificates of the system cannot be read".to_owned()))?;
        let name = ServerName::try_from(self.host.clone()).map_err(|_| StoreError::NoHost)?;
        Ok(StreamOwned::new(ClientConnection::new(config, name).map_err(tls)?, stream))
    }

    /// Runs a command on an idle connection, or on a new one. One that was idle may have been closed by the server; then a new one
    /// is tried.
    fn run(&self, words: &[&[u8]]) -> Result<Reply, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(mut connection) = idle {
            match self.send(&mut connection, words) {
                Err(StoreError::Io(_)) => {}
                done => return self.keep(connection, done),
            }
        }
        let mut connection = self.connect()?;
        let done = self.send(&mut connection, words);
        self.keep(connection, done)
    }

    /// Keeps a connection whose last reply was read to its end.
    fn keep(&self, connection: Connection, done: Result<Reply, StoreError>) -> Result<Reply, StoreError> {
        if done.is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        done
    }

    fn send(&self, connection: &mut Connection, words: &[&[u8]]) -> Result<Reply, StoreError> {
        connection.deadline.renew(self.limit);
        let stream = connection.stream.get_mut();
        let sent = stream.write_all(&reply::command(words)).and_then(|()| stream.flush());
        sent.map_err(|error| self.io(error))?;
        reply::read(&mut connection.stream, LARGEST + HEADER as u64).map_err(|error| match error {
            ReplyError::Io(error) => self.io(error),
            ReplyError::Form(why) => StoreError::Protocol(why.to_owned()),
            ReplyError::TooLarge => StoreError::TooLarge(LARGEST),
        })
    }

    fn io(&self, error: io::Error) -> StoreError {
        if error.kind() == io::ErrorKind::TimedOut {
            return StoreError::Timeout(self.limit);
        }
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => StoreError::Tls(tls.to_string()),
            None => StoreError::Io(error),
        }
    }
}

impl Store for RedisStore {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.run(&[b"GET", format!("{PREFIX}{name}").as_bytes()])? {
            Reply::Value(value) => Ok(value),
            other => Err(unexpected(other)),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        expect_status(self.run(&[b"SET", format!("{PREFIX}{name}").as_bytes(), bytes])?)
    }
}

fn expect_status(reply: Reply) -> Result<(), StoreError> {
    match reply {
        Reply::Status(_) => Ok(()),
        other => Err(unexpected(other)),
    }
}

fn unexpected(reply: Reply) -> StoreError {
    match reply {
        Reply::Error(text) if text.starts_with("OOM") => StoreError::Full(text),
        Reply::Error(text) if text.starts_with("NOAUTH") || text.starts_with("WRONGPASS") => {
            StoreError::Answer(format!(
                "{text}; set FATLINK_CACHE_REMOTE_USER and FATLINK_CACHE_REMOTE_PASSWORD to what this server expects"
            ))
        }
        Reply::Error(text) => StoreError::Answer(text),
        Reply::Status(_) | Reply::Value(_) => StoreError::Protocol("a reply to another command".to_owned()),
    }
}
