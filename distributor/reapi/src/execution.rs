//! The server's execution of an action.

use bazel_remote_apis::build::bazel::remote::execution::v2::execution_client::ExecutionClient;
use bazel_remote_apis::build::bazel::remote::execution::v2::{ActionResult, Digest, ExecuteRequest, ExecuteResponse};
use bazel_remote_apis::google::longrunning::operation::Result as Answer;
use prost::Message;

use crate::cas::Store;
use crate::connection::Connection;
use crate::error::Error;
use crate::inputs::RESULT;

/// How much of a job's messages an error shows, in bytes.
const SHOWN: usize = 2000;

/// The server's execution.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The connection.
    pub connection: Connection,
    /// The store of the results.
    pub store: Store,
}

/// The result of a job.
#[derive(Debug)]
pub struct Executed {
    /// The bytes of its output.
    pub result: Vec<u8>,
    /// The server knew it.
    pub cached: bool,
}

impl Execution {
    /// Executes an action and downloads its result. `anew`: a result that the server knows is not used.
    ///
    /// # Errors
    /// Those of the server, or the job failed.
    pub async fn execute(&self, action: &Digest, anew: bool) -> Result<Executed, Error> {
        let answer = self.answer(action, anew).await?;
        let result = answer.result.ok_or(Error::NoResult)?;
        if result.exit_code != 0 {
            let said = self.said(&result).await;
            return Err(Error::Job { code: result.exit_code, said });
        }
        let output = result.output_files.into_iter().find(|file| file.path == RESULT).ok_or(Error::NoResult)?;
        let digest = output.digest.ok_or(Error::NoResult)?;
        Ok(Executed { result: self.store.read(&digest).await?, cached: answer.cached_result })
    }

    async fn answer(&self, action: &Digest, anew: bool) -> Result<ExecuteResponse, Error> {
        let what = "cannot execute a job";
        let request = ExecuteRequest {
            instance_name: self.store.instance.clone(),
            action_digest: Some(action.clone()),
            skip_cache_lookup: anew,
            ..ExecuteRequest::default()
        };
        let mut client = ExecutionClient::new(self.connection.clone());
        let mut stream = client.execute(request).await.map_err(Error::server(what))?.into_inner();
        // A job takes as long as it does: the scheduler decides how long to wait.
        while let Some(operation) = stream.message().await.map_err(Error::server(what))? {
            let status = match operation.result {
                Some(Answer::Response(response)) => {
                    let response =
                        ExecuteResponse::decode(&*response.value).map_err(|error| Error::Damaged(error.to_string()))?;
                    match &response.status {
                        Some(status) if status.code != 0 => status.clone(),
                        _ => return Ok(response),
                    }
                }
                Some(Answer::Error(status)) => status,
                None => continue,
            };
            return Err(Error::server(what)(tonic::Status::new(status.code.into(), status.message)));
        }
        Err(Error::server(what)(tonic::Status::unavailable("the server ended its answer early")))
    }

    /// The end of what a failed job has printed.
    async fn said(&self, result: &ActionResult) -> String {
        let bytes = match &result.stderr_digest {
            Some(digest) if result.stderr_raw.is_empty() => self.store.read(digest).await.unwrap_or_default(),
            _ => result.stderr_raw.clone(),
        };
        let end = bytes.get(bytes.len().saturating_sub(SHOWN)..).unwrap_or_default();
        String::from_utf8_lossy(end).trim().to_owned()
    }
}
