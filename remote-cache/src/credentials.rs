//! Credentials come from the environment: a command line is public, and ends up in logs.

use std::fmt;

/// Who the user is to a store. `Debug` does not print it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// User name of HTTP, WebDAV or Redis.
    pub user: Option<String>,
    /// Password of HTTP, WebDAV or Redis.
    pub password: Option<String>,
    /// Bearer token of HTTP or WebDAV.
    pub token: Option<String>,
}

impl Credentials {
    /// Reads `FATLINK_CACHE_REMOTE_USER`, `_PASSWORD` and `_TOKEN`.
    pub fn from_environment() -> Self {
        Self::read(&|name| std::env::var(name).ok())
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let own = |name: &str| variable(&format!("FATLINK_CACHE_REMOTE_{name}")).filter(|value| !value.is_empty());
        Credentials { user: own("USER"), password: own("PASSWORD"), token: own("TOKEN") }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let variable = |name: &str| match name {
            "FATLINK_CACHE_REMOTE_USER" => Some("me".to_owned()),
            "FATLINK_CACHE_REMOTE_PASSWORD" => Some("secret".to_owned()),
            "FATLINK_CACHE_REMOTE_TOKEN" => Some(String::new()),
            _ => None,
        };
        let found = Credentials::read(&variable);
        let expected = Credentials { user: Some("me".to_owned()), password: Some("secret".to_owned()), token: None };
        assert_eq!(found, expected);
        assert_eq!(format!("{found:?}"), "Credentials");
    }
}
