//! Credentials come from the environment: a command line is public, and ends up in logs.

use std::ffi::OsString;
use std::fmt;

use crate::error::LocationError;

/// Who the user is to a store. `Debug` does not print it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// User name of HTTP or WebDAV.
    pub user: Option<String>,
    /// Password of HTTP or WebDAV.
    pub password: Option<String>,
    /// Bearer token of HTTP or WebDAV.
    pub token: Option<String>,
}

impl Credentials {
    /// Reads `FATLINK_CACHE_REMOTE_USER`, `_PASSWORD` and `_TOKEN`.
    ///
    /// # Errors
    /// One of them is no text, or a token has characters that a header of HTTP cannot hold.
    pub fn from_environment() -> Result<Self, LocationError> {
        Self::read(&|name| std::env::var_os(name))
    }

    fn read(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, LocationError> {
        let own = |name: &'static str| {
            let value = variable(name).filter(|value| !value.is_empty());
            let unusable = |_| LocationError::Credential { variable: name, why: "it is not UTF-8 text" };
            value.map(|value| value.into_string().map_err(unusable)).transpose()
        };
        let token = own(TOKEN)?;
        // A header would end there. Files with line ends of Windows leave a carriage return behind a shell's $(...).
        if token.as_ref().is_some_and(|token| token.contains(|c: char| !(c.is_ascii_graphic() || c == ' '))) {
            let why = "it has a character that a header of HTTP cannot hold, such as a carriage return at its end";
            return Err(LocationError::Credential { variable: TOKEN, why });
        }
        Ok(Credentials {
            user: own("FATLINK_CACHE_REMOTE_USER")?,
            password: own("FATLINK_CACHE_REMOTE_PASSWORD")?,
            token,
        })
    }
}

const TOKEN: &str = "FATLINK_CACHE_REMOTE_TOKEN";

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Credentials, LocationError> {
        let value = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| OsString::from(value));
        Credentials::read(&value)
    }

    #[test]
    fn variables() {
        let (user, password) = (("FATLINK_CACHE_REMOTE_USER", "me"), ("FATLINK_CACHE_REMOTE_PASSWORD", "secret"));
        let found = read(&[user, password, (TOKEN, "")]).unwrap();
        let expected = Credentials { user: Some("me".to_owned()), password: Some("secret".to_owned()), token: None };
        assert_eq!(found, expected);
        assert_eq!(format!("{found:?}"), "Credentials");
    }

    #[test]
    fn a_token_that_no_header_can_hold_is_an_error() {
        assert_eq!(read(&[(TOKEN, "ab.c-d_e=")]).unwrap().token.as_deref(), Some("ab.c-d_e="));
        for token in ["secret\r", "secret\n", "se\tcret", "secr\u{e9}t", "\u{7f}"] {
            let error = read(&[(TOKEN, token)]).unwrap_err().to_string();
            assert!(error.contains("FATLINK_CACHE_REMOTE_TOKEN") && error.contains("carriage return"), "{error}");
            assert!(!error.contains("secr"), "{error}");
        }
        let no_text = |_: &str| Some(std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]));
        assert!(Credentials::read(&no_text).unwrap_err().to_string().contains("not UTF-8"));
    }
}
