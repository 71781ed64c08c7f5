//! The server's store of blobs.

use std::collections::BTreeMap;
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2::batch_update_blobs_request::Request as Update;
use bazel_remote_apis::build::bazel::remote::execution::v2::content_addressable_storage_client::ContentAddressableStorageClient;
use bazel_remote_apis::build::bazel::remote::execution::v2::{
    BatchUpdateBlobsRequest, Digest, FindMissingBlobsRequest,
};
use bazel_remote_apis::google::bytestream::byte_stream_client::ByteStreamClient;
use bazel_remote_apis::google::bytestream::{ReadRequest, WriteRequest};
use tokio::time::timeout;

use crate::blobs::{Blob, digest_of};
use crate::connection::Connection;
use crate::error::Error;

/// Length of a piece of a large blob, in bytes.
const PIECE: usize = 1 << 20;

/// What a batch may hold beside its blobs, in bytes.
const BATCH_MARGIN: usize = 64 << 10;

/// Hashes in one request: each takes some 80 bytes, and messages have at most 4 MiB.
const HASHES: usize = 10_000;

/// The largest result that is downloaded, in bytes.
const LARGEST_RESULT: i64 = 4 << 30;

/// The store.
#[derive(Debug, Clone)]
pub struct Store {
    /// The connection.
    pub connection: Connection,
    /// The instance on the server.
    pub instance: String,
    /// The largest batch in bytes.
    pub batch: usize,
    /// The time limit of an answer.
    pub timeout: Duration,
}

/// What an upload sent.
#[derive(Debug, Default, Clone, Copy)]
pub struct Uploaded {
    /// Number of blobs.
    pub blobs: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Store {
    /// Uploads the blobs that the store does not have.
    ///
    /// # Errors
    /// Those of the server, or a file cannot be read.
    pub async fn upload(&self, blobs: &BTreeMap<String, Blob>) -> Result<Uploaded, Error> {
        let missing = self.missing(blobs.values().map(|blob| blob.digest.clone()).collect()).await?;
        let mut sent = Uploaded::default();
        let mut batch = (Vec::new(), 0);
        for blob in missing.iter().filter_map(|digest| blobs.get(&digest.hash)) {
            let bytes = blob.bytes()?;
            // A file that has changed since it was hashed must not be stored under that hash.
            if digest_of(&bytes) != blob.digest {
                return Err(Error::Damaged(format!("an input of {} bytes changed", blob.digest.size_bytes)));
            }
            sent.blobs += 1;
            sent.bytes += bytes.len();
            if bytes.len() + BATCH_MARGIN > self.batch {
                self.write(&blob.digest, bytes).await?;
                continue;
            }
            if batch.1 + bytes.len() + BATCH_MARGIN > self.batch {
                self.write_batch(std::mem::take(&mut batch.0)).await?;
                batch.1 = 0;
            }
            // Each blob has its hash and some bytes of framing beside it.
            batch.1 += bytes.len() + 200;
            batch.0.push(Update { digest: Some(blob.digest.clone()), data: bytes, ..Update::default() });
        }
        self.write_batch(batch.0).await?;
        Ok(sent)
    }

    async fn missing(&self, digests: Vec<Digest>) -> Result<Vec<Digest>, Error> {
        let mut client = ContentAddressableStorageClient::new(self.connection.clone());
        let mut missing = Vec::new();
        for digests in digests.chunks(HASHES) {
            let request = FindMissingBlobsRequest {
                instance_name: self.instance.clone(),
                blob_digests: digests.to_vec(),
                ..FindMissingBlobsRequest::default()
            };
            let found = self.limited("cannot look for files", client.find_missing_blobs(request)).await?;
            missing.extend(found.into_inner().missing_blob_digests);
        }
        Ok(missing)
    }

    async fn write_batch(&self, requests: Vec<Update>) -> Result<(), Error> {
        if requests.is_empty() {
            return Ok(());
        }
        let mut client = ContentAddressableStorageClient::new(self.connection.clone());
        let instance_name = self.instance.clone();
        let request = BatchUpdateBlobsRequest { instance_name, requests, ..BatchUpdateBlobsRequest::default() };
        let answer = self.limited("cannot upload files", client.batch_update_blobs(request)).await?.into_inner();
        let failed = answer.responses.into_iter().filter_map(|one| one.status).find(|status| status.code != 0);
        failed.map_or(Ok(()), |status| {
            let status = tonic::Status::new(status.code.into(), status.message);
            Err(Error::server("cannot upload files")(status))
        })
    }

    /// Uploads one blob piece by piece.
    async fn write(&self, digest: &Digest, bytes: Vec<u8>) -> Result<(), Error> {
        let name = format!("uploads/{}/blobs/{}/{}", unique(), digest.hash, digest.size_bytes);
        let name = self.resource(&name);
        let size = bytes.len();
        let mut pieces = Vec::new();
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            let offset = index * PIECE;
            pieces.push(WriteRequest {
                resource_name: if offset == 0 { name.clone() } else { String::new() },
                write_offset: offset as i64,
                finish_write: offset + piece.len() == size,
                data: piece.to_vec(),
            });
        }
        let mut client = ByteStreamClient::new(self.connection.clone());
        // The limit of one answer for each 16 MiB.
        let limit = self.timeout * (1 + u32::try_from(size >> 24).unwrap_or(u32::MAX - 1));
        let written = timeout(limit, client.write(futures_util::stream::iter(pieces))).await;
        let written = written.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("no answer in time")));
        let committed = written.map_err(Error::server("cannot upload a file"))?.into_inner().committed_size;
        // A server that had the blob already may answer with -1 for compressed ones, and with its size for others.
        if committed == digest.size_bytes || committed == -1 {
            return Ok(());
        }
        Err(Error::Damaged(format!("{committed} of {size} bytes were written")))
    }

    /// Downloads a blob.
    ///
    /// # Errors
    /// Those of the server, or other bytes came than were expected.
    pub async fn read(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        if !(0..=LARGEST_RESULT).contains(&digest.size_bytes) {
            return Err(Error::Damaged(format!("a result of {} bytes", digest.size_bytes)));
        }
        let resource_name = self.resource(&format!("blobs/{}/{}", digest.hash, digest.size_bytes));
        let mut client = ByteStreamClient::new(self.connection.clone());
        let request = ReadRequest { resource_name, ..ReadRequest::default() };
        let what = "cannot download a result";
        let mut stream = self.limited(what, client.read(request)).await?.into_inner();
        let (mut bytes, size) = (Vec::new(), usize::try_from(digest.size_bytes).unwrap_or(usize::MAX));
        while let Some(piece) = self.limited(what, stream.message()).await? {
            bytes.extend_from_slice(&piece.data);
            if bytes.len() > size {
                break;
            }
        }
        if digest_of(&bytes) == *digest {
            Ok(bytes)
        } else {
            Err(Error::Damaged("a result has another hash".to_owned()))
        }
    }

    fn resource(&self, name: &str) -> String {
        if self.instance.is_empty() { name.to_owned() } else { format!("{}/{name}", self.instance) }
    }

    async fn limited<T>(
        &self,
        what: &'static str,
        answer: impl Future<Output = Result<T, tonic::Status>>,
    ) -> Result<T, Error> {
        let answer = timeout(self.timeout, answer).await;
        let answer = answer.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("no answer in time")));
        answer.map_err(Error::server(what))
    }
}

/// A name for an upload, in the form of a UUID, that no other upload has.
fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let own = format!("{}-{time}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let digits = digest_of(own.as_bytes()).hash;
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}
