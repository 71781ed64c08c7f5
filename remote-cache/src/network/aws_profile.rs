//! The credentials file that all programs for AWS share: sections named by profiles, with lines `name = value`.

use std::path::PathBuf;

/// Keys of a profile.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// `aws_access_key_id`.
    pub id: Option<String>,
    /// `aws_secret_access_key`.
    pub secret: Option<String>,
    /// `aws_session_token`.
    pub token: Option<String>,
}

/// Largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

impl Keys {
    /// Reads those of the profile `AWS_PROFILE`, by default `default`, from `AWS_SHARED_CREDENTIALS_FILE` or `~/.aws/credentials`. A file
    /// that is not there has none.
    pub fn of_profile(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let in_home = || Some(PathBuf::from(variable("HOME")?).join(".aws/credentials"));
        let path = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from).or_else(in_home);
        let is_small = |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.len() <= LARGEST);
        let text = path.filter(is_small).and_then(|path| std::fs::read_to_string(path).ok());
        let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        text.map(|text| Self::read(&text, &profile)).unwrap_or_default()
    }

    fn read(text: &str, profile: &str) -> Self {
        let (mut keys, mut is_inside) = (Keys::default(), false);
        for line in text.lines().map(str::trim) {
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                is_inside = section.trim() == profile;
            } else if let Some((name, value)) =
                line.split_once('=').filter(|_| is_inside && !line.starts_with(['#', ';']))
            {
                let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
                match name.trim() {
                    "aws_access_key_id" => keys.id = value,
                    "aws_secret_access_key" => keys.secret = value,
                    "aws_session_token" => keys.token = value,
                    _ => {}
                }
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "; comment\n[default]\naws_access_key_id = ID\naws_secret_access_key=SE=CRET\n# aws_session_token = no\n\n\
        [ ci ]\naws_access_key_id=CI\naws_secret_access_key=X\naws_session_token = T\nregion = here\n[empty]\nnonsense\n";

    fn keys(profile: &str) -> (Option<String>, Option<String>, Option<String>) {
        let Keys { id, secret, token } = Keys::read(FILE, profile);
        (id, secret, token)
    }

    #[test]
    fn profiles() {
        let own = |text: &str| Some(text.to_owned());
        assert_eq!(keys("default"), (own("ID"), own("SE=CRET"), None));
        assert_eq!(keys("ci"), (own("CI"), own("X"), own("T")));
        assert_eq!(keys("empty"), (None, None, None));
        assert_eq!(keys("none"), (None, None, None));
    }

    #[test]
    fn a_file_that_is_not_there_has_none() {
        let variable = |name: &str| (name == "AWS_SHARED_CREDENTIALS_FILE").then(|| "/nowhere".to_owned());
        assert!(Keys::of_profile(&variable) == Keys::default());
    }
}
