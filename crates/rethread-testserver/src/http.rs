//! Just enough HTTP/1.1 for a test server: one request at a time, bodies by length or
//! in chunks, answers whole or in chunks.

use std::io::{self, BufRead, Read, Write};

const MAX_HEAD: u64 = 64 * 1024;
const MAX_BODY: usize = 64 * 1024 * 1024;

/// A request as it came in. Header names are in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

impl Request {
    /// The path without its query.
    pub(crate) fn path(&self) -> &str {
        self.target
            .split_once('?')
            .map_or(self.target.as_str(), |(path, _)| path)
    }

    /// The query, without the question mark.
    pub(crate) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The first header of that (lower case) name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn line(input: &mut impl BufRead, left: &mut u64) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let got = input.by_ref().take(*left).read_until(b'\n', &mut bytes)?;
    if got == 0 {
        return Ok(None);
    }
    *left = left.saturating_sub(u64::try_from(got).unwrap_or(u64::MAX));
    if bytes.pop() != Some(b'\n') {
        return Err(bad("line cut off or too long"));
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| bad("head is not UTF-8"))
}

/// Read one request; `None` when the peer closed between requests. `output` gets
/// `100 Continue` when the peer waits for it.
pub(crate) fn read_request(
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Option<Request>> {
    let mut left = MAX_HEAD;
    let Some(first) = line(input, &mut left)? else {
        return Ok(None);
    };
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Err(bad("request line"));
    };
    let mut headers = Vec::new();
    loop {
        let text = line(input, &mut left)?.ok_or_else(|| bad("head cut off"))?;
        if text.is_empty() {
            break;
        }
        let (name, value) = text.split_once(':').ok_or_else(|| bad("header line"))?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    if find(&headers, "expect").is_some_and(|v| v.eq_ignore_ascii_case("100-continue")) {
        output.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        output.flush()?;
    }
    let chunked = find(&headers, "transfer-encoding")
        .is_some_and(|v| v.to_ascii_lowercase().contains("chunked"));
    let body = if chunked {
        read_chunks(input)?
    } else {
        let size = match find(&headers, "content-length") {
            Some(text) => text.parse::<usize>().map_err(|_| bad("content-length"))?,
            None => 0,
        };
        read_exactly(input, size)?
    };
    let close = find(&headers, "connection").map(str::to_ascii_lowercase);
    let keep_alive = match close.as_deref() {
        Some("close") => false,
        Some("keep-alive") => true,
        _ => version != "HTTP/1.0",
    };
    Ok(Some(Request {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        body,
        keep_alive,
    }))
}

fn read_exactly(input: &mut impl BufRead, size: usize) -> io::Result<Vec<u8>> {
    if size > MAX_BODY {
        return Err(bad("body too large"));
    }
    let mut body = vec![0; size];
    input.read_exact(&mut body)?;
    Ok(body)
}

fn read_chunks(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut left = MAX_HEAD;
        let text = line(input, &mut left)?.ok_or_else(|| bad("chunk size missing"))?;
        let digits = text.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(digits, 16).map_err(|_| bad("chunk size"))?;
        if size == 0 {
            while !line(input, &mut left)?
                .ok_or_else(|| bad("trailer cut off"))?
                .is_empty()
            {}
            return Ok(body);
        }
        if body.len().saturating_add(size) > MAX_BODY {
            return Err(bad("body too large"));
        }
        body.extend(read_exactly(input, size)?);
        if !line(input, &mut left)?
            .ok_or_else(|| bad("chunk cut off"))?
            .is_empty()
        {
            return Err(bad("chunk end"));
        }
    }
}

/// The usual words for a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Status",
    }
}

/// Write a whole answer.
pub(crate) fn write_answer(
    output: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    output.write_all(&bytes)?;
    output.flush()
}

/// Write the head of a chunked event stream.
pub(crate) fn write_stream_head(
    output: &mut impl Write,
    headers: &[(String, String)],
) -> io::Result<()> {
    let mut text = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n",
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Write one chunk; an empty one is not written, it would end the body.
pub(crate) fn write_chunk(output: &mut impl Write, data: &[u8]) -> io::Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    let mut bytes = format!("{:x}\r\n", data.len()).into_bytes();
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\r\n");
    output.write_all(&bytes)?;
    output.flush()
}

/// End a chunked body.
pub(crate) fn write_end(output: &mut impl Write) -> io::Result<()> {
    output.write_all(b"0\r\n\r\n")?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Option<Request>> {
        read_request(&mut text.as_bytes(), &mut Vec::new())
    }

    #[test]
    fn reads_a_body_by_length_and_leaves_the_rest() {
        let mut input =
            "POST /a?b=c HTTP/1.1\r\nContent-Length: 3\r\nX-Y: z\r\n\r\nabcGET / HTTP/1.1\r\n\r\n"
                .as_bytes();
        let one = read_request(&mut input, &mut Vec::new()).unwrap().unwrap();
        assert_eq!(
            (one.path(), one.query(), one.body.as_slice()),
            ("/a", "b=c", &b"abc"[..])
        );
        assert_eq!(one.header("x-y"), Some("z"));
        let two = read_request(&mut input, &mut Vec::new()).unwrap().unwrap();
        assert_eq!((two.method.as_str(), two.keep_alive), ("GET", true));
        assert!(read_request(&mut input, &mut Vec::new()).unwrap().is_none());
    }

    #[test]
    fn reads_chunks_and_trailers() {
        let text = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nT: 1\r\n\r\n";
        let got = read(text).unwrap().unwrap();
        assert_eq!(got.body, b"abc0123456789");
        assert!(!got.keep_alive);
    }

    #[test]
    fn answers_expect_continue() {
        let mut out = Vec::new();
        let text = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
        read_request(&mut text.as_bytes(), &mut out)
            .unwrap()
            .unwrap();
        assert!(out.starts_with(b"HTTP/1.1 100"));
    }

    #[test]
    fn refuses_broken_heads() {
        for text in [
            "GET\r\n\r\n",
            "GET / HTTP/1.1\r\nnocolon\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b",
            "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
