//! Plain HTTP through a proxy: the proxy gets each request with the whole URL in its first line (RFC 9112, section 3.2.2). ureq opens a tunnel with
//! `CONNECT` for every URL, and many proxies permit that for HTTPS alone.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::http::uri::Scheme;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport};
use ureq::{Agent, Error, Proxy, ProxyProtocol};

/// The proxy of the environment, if requests for this URL go to it with the whole URL. A proxy that is itself reached by TLS or SOCKS tunnels.
pub fn of_environment(uri: &Uri) -> Option<Proxy> {
    let forwards = |proxy: &Proxy| proxy.protocol() == ProxyProtocol::Http && !proxy.is_no_proxy(uri);
    Proxy::try_from_env().filter(forwards).filter(|_| uri.scheme() == Some(&Scheme::HTTP))
}

/// A client that sends everything to the proxy. `config` has none, so that it opens no tunnel.
pub fn agent(config: Config, proxy: Proxy) -> Agent {
    Agent::with_parts(config, DefaultConnector::new().chain(Forward(proxy.clone())), Forward(proxy))
}

struct Forward(Proxy);

impl fmt::Debug for Forward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Forward")
    }
}

impl Forward {
    /// A line of the header, if the proxy has users.
    fn authorization(&self) -> String {
        let (user, password) = (self.0.username(), self.0.password());
        if user.is_none() && password.is_none() {
            return String::new();
        }
        let pair = format!("{}:{}", user.unwrap_or_default(), password.unwrap_or_default());
        format!("Proxy-Authorization: Basic {}\r\n", BASE64_STANDARD.encode(pair))
    }
}

impl Resolver for Forward {
    /// Whatever the URL, the connection is to the proxy.
    fn resolve(&self, _: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        DefaultResolver::default().resolve(self.0.uri(), config, timeout)
    }
}

impl<In: Transport> Connector<In> for Forward {
    type Out = ToProxy<In>;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        let authority = details.uri.authority().map(ToString::to_string).unwrap_or_default();
        let (origin, authorization) = (format!("http://{authority}"), self.authorization());
        Ok(chained.map(|inner| ToProxy { inner, origin, authorization, is_at_request: true }))
    }
}

/// A connection to the proxy for requests to one server.
struct ToProxy<In> {
    inner: In,
    /// What the first line names in front of the path.
    origin: String,
    authorization: String,
    /// Whether the next output is the start of a request: the first one, and one behind an answer.
    is_at_request: bool,
}

impl<In> fmt::Debug for ToProxy<In> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ToProxy({})", self.origin)
    }
}

impl<In: Transport> Transport for ToProxy<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_at_request) {
            return self.inner.transmit_output(amount, timeout);
        }
        let start = self.inner.buffers().output()[..amount].to_vec();
        let whole = with_whole_url(&start, &self.origin, &self.authorization).unwrap_or(start);
        let room = self.inner.buffers().output().len().max(1);
        for part in whole.chunks(room) {
            self.inner.buffers().output()[..part.len()].copy_from_slice(part);
            self.inner.transmit_output(part.len(), timeout)?;
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.is_at_request = true;
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }
}

/// Puts the origin in front of the path of the first line, and the authorization behind that line.
fn with_whole_url(start: &[u8], origin: &str, authorization: &str) -> Option<Vec<u8>> {
    let path = start.iter().position(|byte| *byte == b' ')? + 1;
    let second_line = start.windows(2).position(|end| end == b"\r\n")? + 2;
    let (method, rest) = start.split_at_checked(path)?;
    let (line, others) = rest.split_at_checked(second_line.checked_sub(path)?)?;
    Some([method, origin.as_bytes(), line, authorization.as_bytes(), others].concat())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// The header of a request, and the size of its body.
    type Request = (Vec<String>, usize);

    /// Starts a proxy that answers every request itself until the test program ends. Returns where it is, and what it gets.
    fn proxy() -> (String, Receiver<Request>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, tell) = (stream.unwrap(), tell.clone());
                std::thread::spawn(move || answer_requests(&stream, &tell));
            }
        });
        (address, requests)
    }

    /// Answers the requests of one connection.
    fn answer_requests(mut stream: &TcpStream, tell: &Sender<Request>) {
        let mut reader = BufReader::new(stream);
        loop {
            let lines = reader.by_ref().lines().map_while(Result::ok);
            let header: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            if header.is_empty() {
                return;
            }
            let size =
                header.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; size.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            tell.send((header, body.len())).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    }

    #[test]
    fn a_proxy_gets_whole_urls() {
        let (address, requests) = proxy();
        let proxy = format!("http://me:secret@{address}");
        let config = Agent::config_builder().proxy(None).build();
        let agent = agent(config, Proxy::new(&proxy).unwrap());
        assert!(!format!("{agent:?}").contains("secret"));
        let body = vec![b'x'; 1 << 20];
        agent.get("http://cache.invalid:81/a/b").call().unwrap().body_mut().read_to_string().unwrap();
        agent.put("http://cache.invalid:81/a/c").send(&body[..]).unwrap().body_mut().read_to_string().unwrap();
        agent.get("http://cache.invalid:81/a/d").call().unwrap().body_mut().read_to_string().unwrap();
        let seen: Vec<Request> = requests.try_iter().collect();
        let lines: Vec<_> = seen.iter().map(|(header, size)| (header[0].as_str(), *size)).collect();
        let url = "http://cache.invalid:81/a";
        let [get, put, again] =
            [format!("GET {url}/b HTTP/1.1"), format!("PUT {url}/c HTTP/1.1"), format!("GET {url}/d HTTP/1.1")];
        assert_eq!(lines, [(get.as_str(), 0), (put.as_str(), 1 << 20), (again.as_str(), 0)]);
        for (header, _) in &seen {
            assert!(header.iter().any(|line| line.eq_ignore_ascii_case("host: cache.invalid:81")), "{header:?}");
            assert!(header.contains(&"Proxy-Authorization: Basic bWU6c2VjcmV0".to_owned()), "{header:?}");
        }
    }
}
