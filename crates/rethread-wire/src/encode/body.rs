//! Request bodies: long, mostly the same from one request to the next, so made of shared chunks.

use bytes::Bytes;

/// How long a chunk gets. Longer ones would be copied more often than they are shared, shorter ones
/// make long bodies of many chunks.
const CHUNK: usize = 1 << 20;

/// A request body as a list of byte chunks. Cheap to clone: the chunks are shared with the encoder and
/// with the bodies before and after.
#[derive(Clone, Debug, Default)]
pub struct Body {
    chunks: Vec<Bytes>,
    len: usize,
}

impl Body {
    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The chunks in order; none is empty.
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// All bytes in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len);
        for chunk in &self.chunks {
            all.extend_from_slice(chunk);
        }
        all
    }

    pub(super) fn add(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.len += chunk.len();
            self.chunks.push(chunk);
        }
    }
}

impl IntoIterator for Body {
    type Item = Bytes;
    type IntoIter = std::vec::IntoIter<Bytes>;

    fn into_iter(self) -> Self::IntoIter {
        self.chunks.into_iter()
    }
}

/// The part of a body that only grows.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    frozen: Vec<Bytes>,
    frozen_len: usize,
    tail: Vec<u8>,
}

impl Buffer {
    /// Where to write.
    pub(super) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Bytes written so far.
    pub(super) fn len(&self) -> usize {
        self.frozen_len + self.tail.len()
    }

    /// To be called between messages: a full tail becomes a chunk of its own.
    pub(super) fn settle(&mut self) {
        if self.tail.len() >= CHUNK {
            let tail = std::mem::take(&mut self.tail);
            self.freeze(tail);
            // More of the same is likely. Memory that is not written to costs nothing.
            self.tail.reserve(CHUNK + CHUNK / 8);
        }
    }

    /// Everything written so far, as chunks. Each byte is copied a few times at most, however many
    /// requests are made: a short chunk is merged with one of its own size, as in a binary counter.
    pub(super) fn chunks(&mut self) -> &[Bytes] {
        let mut tail = std::mem::take(&mut self.tail);
        if !tail.is_empty() {
            while let Some(last) = self
                .frozen
                .pop_if(|last| last.len() <= tail.len() && tail.len() + last.len() < CHUNK)
            {
                self.frozen_len -= last.len();
                let mut merged = Vec::with_capacity(last.len() + tail.len());
                merged.extend_from_slice(&last);
                merged.extend_from_slice(&tail);
                tail = merged;
            }
            self.freeze(tail);
        }
        &self.frozen
    }

    fn freeze(&mut self, bytes: Vec<u8>) {
        self.frozen_len += bytes.len();
        self.frozen.push(Bytes::from(bytes.into_boxed_slice()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_in_order_and_chunks_stay_few() {
        let mut buffer = Buffer::default();
        let mut all = Vec::new();
        for n in 0..3000_u32 {
            let piece = n.to_le_bytes().repeat(200);
            buffer.tail().extend_from_slice(&piece);
            buffer.settle();
            all.extend_from_slice(&piece);
            if n % 3 == 0 {
                let chunks = buffer.chunks();
                assert!(chunks.len() < 30, "{} chunks", chunks.len());
                assert_eq!(chunks.iter().map(Bytes::len).sum::<usize>(), all.len());
            }
            assert_eq!(buffer.len(), all.len());
        }
        assert_eq!(buffer.chunks().concat(), all);
    }

    #[test]
    fn a_settled_chunk_is_shared_and_not_copied() {
        let mut buffer = Buffer::default();
        buffer.tail().resize(CHUNK, b'x');
        buffer.settle();
        let before = buffer.chunks()[0].as_ptr();
        buffer.tail().extend_from_slice(b"more");
        assert_eq!(buffer.chunks()[0].as_ptr(), before);
    }
}
