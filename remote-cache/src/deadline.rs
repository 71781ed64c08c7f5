//! A connection whose requests have a deadline, however slowly bytes come.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A moment that the connection and its user share.
#[derive(Debug, Clone)]
pub struct Deadline(Arc<Mutex<Instant>>);

impl Deadline {
    /// So long from now.
    pub fn after(limit: Duration) -> Self {
        Deadline(Arc::new(Mutex::new(Instant::now() + limit)))
    }

    /// Moves it to so long from now.
    pub fn renew(&self, limit: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + limit;
    }

    /// The time that is left; never zero, which would mean no limit.
    fn left(&self) -> io::Result<Duration> {
        let deadline = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

/// A connection to a host.
#[derive(Debug)]
pub struct Stream {
    tcp: TcpStream,
    deadline: Deadline,
}

impl Stream {
    /// Connects to the first address of the host that answers.
    pub fn connect(host: &str, port: u16, deadline: Deadline) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses(host, port, deadline.left()?)? {
            match TcpStream::connect_timeout(&address, deadline.left()?) {
                Ok(tcp) => {
                    tcp.set_nodelay(true)?;
                    return Ok(Stream { tcp, deadline });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The system's resolver has no time limit, so it runs in a thread that is left behind if it takes too long.
fn addresses(host: &str, port: u16, limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let (sender, receiver) = mpsc::channel();
    let host = host.to_owned();
    let resolve = move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let _ = sender.send(found);
    };
    std::thread::Builder::new().spawn(resolve)?;
    match receiver.recv_timeout(limit) {
        Ok(Ok(found)) => Ok(found),
        // The text of the error differs between systems.
        Ok(Err(_)) => Err(io::ErrorKind::NotFound.into()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Sockets call the end of their time `WouldBlock`.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(Some(self.deadline.left()?))?;
        self.tcp.read(buffer).map_err(timed_out)
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(Some(self.deadline.left()?))?;
        self.tcp.write(buffer).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}
