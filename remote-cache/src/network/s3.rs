//! Entries as objects of S3, or of a server that speaks its protocol. Requests are signed as URLs, which are never printed.

use std::fmt;
use std::time::Duration;

use rusty_s3::actions::{GetObject, PutObject, S3Action};
use rusty_s3::{Bucket, Credentials, UrlStyle};
use ureq::http::{Method, Request};
use url::Url;

use crate::error::{LocationError, StoreError};
use crate::network::aws_profile::Keys;
use crate::network::http::{Client, check_put};
use crate::store::Store;

/// How long a signature is valid: longer than any request, and for clocks that differ a little.
const VALIDITY: Duration = Duration::from_secs(15 * 60);

/// The region if the environment names none; most other servers accept any.
const REGION: &str = "us-east-1";

/// Entries in a bucket.
pub struct S3Store {
    bucket: Bucket,
    prefix: String,
    /// `None`: requests are not signed, as a public bucket permits.
    credentials: Option<Credentials>,
    client: Client,
}

impl fmt::Debug for S3Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "S3Store({}, {})", self.bucket.base_url(), self.prefix)
    }
}

impl S3Store {
    /// Endpoint, region and credentials come from the variables that all programs for S3 read.
    pub fn from_environment(bucket: &str, prefix: &str, limit: Duration) -> Result<Self, LocationError> {
        Self::new(bucket, prefix, limit, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn new(
        bucket: &str,
        prefix: &str,
        limit: Duration,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, LocationError> {
        let region =
            ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(variable).unwrap_or_else(|| REGION.to_owned());
        let unusable = || LocationError::Bucket { bucket: bucket.to_owned(), region: region.clone() };
        let named = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
        let named = named.into_iter().find_map(|name| Some((name, variable(name)?)));
        let (endpoint, style) = match named {
            Some((variable, value)) => {
                let url = Url::parse(&value).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
                (url.ok_or(LocationError::Endpoint { variable, value })?, UrlStyle::Path)
            }
            None => {
                let url = Url::parse(&format!("https://s3.{region}.amazonaws.com")).map_err(|_| unusable())?;
                // A bucket with a dot does not match the certificate of a host name with it.
                (url, if bucket.contains('.') { UrlStyle::Path } else { UrlStyle::VirtualHost })
            }
        };
        let of_environment = Keys {
            id: variable("AWS_ACCESS_KEY_ID"),
            secret: variable("AWS_SECRET_ACCESS_KEY"),
            token: variable("AWS_SESSION_TOKEN"),
        };
        let credentials = credentials(of_environment).or_else(|| credentials(Keys::of_profile(variable)));
        let bucket = Bucket::new(endpoint, style, bucket.to_owned(), region.clone()).map_err(|_| unusable())?;
        Ok(S3Store { bucket, prefix: prefix.to_owned(), credentials, client: Client::new(limit) })
    }

    fn object(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn get_url(&self, name: &str) -> Url {
        GetObject::new(&self.bucket, self.credentials.as_ref(), &self.object(name)).sign(VALIDITY)
    }

    fn put_url(&self, name: &str) -> Url {
        PutObject::new(&self.bucket, self.credentials.as_ref(), &self.object(name)).sign(VALIDITY)
    }

    /// S3 denies access where there is no object, if the user may not list the bucket.
    fn explained(error: StoreError) -> StoreError {
        match error {
            StoreError::Denied(code, _) => StoreError::Denied(
                code,
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN or AWS_PROFILE, AWS_REGION and AWS_ENDPOINT_URL; S3 \
                 answers so for missing objects, too, unless s3:ListBucket is permitted",
            ),
            other => other,
        }
    }
}

fn credentials(keys: Keys) -> Option<Credentials> {
    let (id, secret) = (keys.id?, keys.secret?);
    Some(match keys.token {
        Some(token) => Credentials::new_with_token(id, secret, token),
        None => Credentials::new(id, secret),
    })
}

impl Store for S3Store {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let request = Request::builder().method(Method::GET).uri(self.get_url(name).as_str());
        self.client.get(request).map_err(Self::explained)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let request = Request::builder().method(Method::PUT).uri(self.put_url(name).as_str());
        self.client.status(request, bytes).and_then(check_put).map_err(Self::explained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(variables: &[(&str, &str)], bucket: &str) -> String {
        let variable =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        match S3Store::new(bucket, "p/", Duration::from_secs(1), &variable) {
            Ok(store) => store.get_url("abc").to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn endpoints() {
        assert_eq!(url(&[], "b"), "https://b.s3.us-east-1.amazonaws.com/p/abc");
        assert_eq!(url(&[("AWS_DEFAULT_REGION", "eu-west-1")], "b"), "https://b.s3.eu-west-1.amazonaws.com/p/abc");
        assert_eq!(url(&[], "b.c"), "https://s3.us-east-1.amazonaws.com/b.c/p/abc");
        assert_eq!(url(&[("AWS_ENDPOINT_URL", "http://minio:9000")], "b"), "http://minio:9000/b/p/abc");
        let both = [("AWS_ENDPOINT_URL", "http://a"), ("AWS_ENDPOINT_URL_S3", "http://b:1/")];
        assert_eq!(url(&both, "b"), "http://b:1/b/p/abc");
        let wrong = url(&[("AWS_ENDPOINT_URL", "minio:9000")], "b");
        assert_eq!(wrong, "the variable AWS_ENDPOINT_URL is 'minio:9000', which is no http:// or https:// URL");
    }

    #[test]
    fn requests_are_signed_if_there_are_credentials() {
        let keys = [("AWS_ACCESS_KEY_ID", "ID"), ("AWS_SECRET_ACCESS_KEY", "SECRET"), ("AWS_SESSION_TOKEN", "TOKEN")];
        let signed = url(&keys, "b");
        assert!(signed.contains("X-Amz-Signature=") && signed.contains("X-Amz-Security-Token=TOKEN"), "{signed}");
        assert!(!signed.contains("SECRET"));
    }
}
