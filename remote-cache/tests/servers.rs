//! Stores against servers that answer with anything: each request ends in time with what it found or with one error.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use remote_cache::store::Store;
use remote_cache::{Credentials, Location};

/// What a store waits for an answer in the tests whose servers answer: a busy machine delays them.
const PATIENT: Duration = Duration::from_secs(60);

/// What it waits for servers that never end.
const IMPATIENT: Duration = Duration::from_millis(700);

/// Starts a server that hands connections to `answer`, one after the other and until the test program ends, and returns its
/// address.
fn server(answer: impl Fn(TcpStream, usize) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            answer(stream.unwrap(), number);
        }
    });
    address
}

/// Reads a request of HTTP with its body. A server that closes a connection with unread bytes resets it, and the client
/// may then lose the answer.
fn request(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    let is_whole = |text: &str| {
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        body.len() >= length.unwrap_or(0)
    };
    while !is_whole(&text) {
        match stream.read(&mut buffer).unwrap_or(0) {
            0 => break,
            count => text += &String::from_utf8_lossy(&buffer[..count]),
        }
    }
    text
}

fn open(url: &str, limit: Duration) -> Box<dyn Store> {
    Location::parse(url).unwrap().open(&Credentials::default(), limit).unwrap()
}

/// The result of a request for an entry, as text.
fn got(store: &dyn Store) -> String {
    match store.get("name") {
        Ok(Some(bytes)) => format!("{} bytes", bytes.len()),
        Ok(None) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The answer to a request of HTTP.
fn http(answer: &'static [u8]) -> String {
    let address = server(move |mut stream, _| {
        request(&mut stream);
        let _ = stream.write_all(answer);
    });
    got(&*open(&format!("http://{address}"), PATIENT))
}

#[test]
fn answers_of_http() {
    assert_eq!(http(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), "3 bytes");
    assert_eq!(http(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), "nothing");
    assert_eq!(http(b"HTTP/1.1 500 Oh no\r\nContent-Length: 0\r\n\r\n"), "it answered HTTP 500 Internal Server Error");
    let denied = http(b"HTTP/1.1 401 Who?\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(denied, "access denied (HTTP 401): set the variables with the credentials of this store");
    let moved = http(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(moved, "it answered HTTP 302, and redirections are not followed");
    let large = http(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nabc");
    assert!(
        large.starts_with("it sent more than 256 MiB") || large.contains("closed") || large.contains("disconnected"),
        "{large}"
    );
    for broken in
        [&b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"[..], b"", b"+PONG\r\n", b"HTTP/1.1 200 OK\r\nX: "]
    {
        let text = http(broken);
        assert!(!text.ends_with(" bytes") && text != "nothing", "{text}");
    }
}

#[test]
fn a_server_that_sends_slowly_or_never_ends() {
    let drip = |stream: &mut TcpStream| {
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let silent = server(|mut stream, _| {
        request(&mut stream);
        // Until the client has closed the connection.
        let _ = stream.read(&mut [0]);
    });
    let header = server(move |mut stream, _| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        drip(&mut stream);
    });
    let body = server(move |mut stream, _| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        drip(&mut stream);
    });
    for address in [silent, header, body] {
        let begun = Instant::now();
        assert_eq!(got(&*open(&format!("http://{address}"), IMPATIENT)), "no answer within 700 ms");
        assert!(begun.elapsed() < PATIENT, "{:?}", begun.elapsed());
    }
}

#[test]
fn nobody_is_there() {
    // The port of a connection is taken, and nobody listens there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let taken = connection.local_addr().unwrap();
    for scheme in ["http", "dav"] {
        let text = got(&*open(&format!("{scheme}://{taken}"), PATIENT));
        assert!(text.to_lowercase().contains("connection refused"), "{scheme}: {text}");
    }
}

#[test]
fn a_connection_that_was_closed_while_idle_is_replaced() {
    let (tell, closed) = mpsc::channel();
    let http = server(move |mut stream, _| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
        drop(stream);
        tell.send(()).unwrap();
    });
    let store = open(&format!("http://{http}"), PATIENT);
    for _ in 0..3 {
        assert_eq!(got(&*store), "1 bytes");
        closed.recv_timeout(PATIENT).unwrap();
    }
}

#[test]
fn webdav_creates_its_collections() {
    for missing in ["409 Conflict", "500 Internal Server Error", "403 Forbidden", "404 Not Found"] {
        webdav_with(missing);
    }
}

fn webdav_with(missing: &'static str) {
    let (sender, requests) = mpsc::channel();
    let address = server(move |mut stream, number| {
        let head = request(&mut stream);
        sender.send(head.lines().next().unwrap_or_default().to_owned()).unwrap();
        let status = if number == 0 { missing } else { "201 Created" };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    open(&format!("dav://{address}/a/b"), PATIENT).put("cdef", b"x").unwrap();
    let lines: Vec<String> = requests.try_iter().collect();
    let expected = ["PUT /a/b/cd/ef", "MKCOL /a/", "MKCOL /a/b/", "MKCOL /a/b/cd/", "PUT /a/b/cd/ef"];
    assert_eq!(lines, expected.map(|line| format!("{line} HTTP/1.1")));
}
