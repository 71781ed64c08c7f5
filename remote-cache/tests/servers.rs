//! Stores against servers that answer with anything: each request ends in time with what it found or with one error.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use remote_cache::store::Store;
use remote_cache::{Credentials, Location};

const LIMIT: Duration = Duration::from_millis(700);

/// Starts a server that handles connections with `answer`, one after the other, and returns its address.
fn server(answer: impl Fn(&mut TcpStream, usize) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            answer(&mut stream.unwrap(), number);
        }
    });
    address
}

/// Reads the head of a request, and what came with it.
fn request(stream: &mut TcpStream) -> String {
    let mut buffer = [0; 4096];
    let count = stream.read(&mut buffer).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

/// Reads a request of HTTP with its body. A server that closes a connection with unread bytes resets it, and the client
/// may then lose the answer.
fn whole_request(stream: &mut TcpStream) -> String {
    let mut text = request(stream);
    let is_whole = |text: &str| {
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        body.len() >= length.unwrap_or(0)
    };
    while !is_whole(&text) {
        let more = request(stream);
        if more.is_empty() {
            break;
        }
        text += &more;
    }
    text
}

fn open(url: &str) -> Box<dyn Store> {
    Location::parse(url).unwrap().open(&Credentials::default(), LIMIT).unwrap()
}

/// The result of a request for an entry, as text; it must come in time.
fn got(store: &dyn Store) -> String {
    let begun = Instant::now();
    let text = match store.get("name") {
        Ok(Some(bytes)) => format!("{} bytes", bytes.len()),
        Ok(None) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(begun.elapsed() < 3 * LIMIT, "{text} after {:?}", begun.elapsed());
    text
}

/// The answer to a request of HTTP.
fn http(answer: &'static [u8]) -> String {
    let address = server(move |stream, _| {
        request(stream);
        let _ = stream.write_all(answer);
    });
    got(&*open(&format!("http://{address}")))
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
    let silent = server(|stream, _| drop(stream.read(&mut [0; 10_000]).and_then(|_| stream.read(&mut [0; 10]))));
    let header = server(move |stream, _| {
        request(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        drip(stream);
    });
    let body = server(move |stream, _| {
        request(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        drip(stream);
    });
    for address in [silent, header, body] {
        assert_eq!(got(&*open(&format!("http://{address}"))), "no answer within 700 ms");
    }
}

#[test]
fn nobody_is_there() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["http", "dav"] {
        let text = got(&*open(&format!("{scheme}://{unused}")));
        assert!(text.to_lowercase().contains("connection refused"), "{scheme}: {text}");
    }
}

#[test]
fn a_connection_that_was_closed_while_idle_is_replaced() {
    let http = server(|stream, _| {
        request(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    });
    let store = open(&format!("http://{http}"));
    for _ in 0..3 {
        assert_eq!(got(&*store), "1 bytes");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn webdav_creates_its_collections() {
    for missing in ["409 Conflict", "500 Internal Server Error", "403 Forbidden", "404 Not Found"] {
        webdav_with(missing);
    }
}

fn webdav_with(missing: &'static str) {
    let (sender, requests) = std::sync::mpsc::channel();
    let address = server(move |stream, number| {
        let head = whole_request(stream);
        sender.send(head.lines().next().unwrap_or_default().to_owned()).unwrap();
        let status = if number == 0 { missing } else { "201 Created" };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    open(&format!("dav://{address}/a/b")).put("cdef", b"x").unwrap();
    let lines: Vec<String> = requests.try_iter().collect();
    let expected = ["PUT /a/b/cd/ef", "MKCOL /a/", "MKCOL /a/b/", "MKCOL /a/b/cd/", "PUT /a/b/cd/ef"];
    assert_eq!(lines, expected.map(|line| format!("{line} HTTP/1.1")));
}
