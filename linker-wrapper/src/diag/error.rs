//! Errors are collected and printed together. Each names the file, the member and the offset, and what to do.
//!
//! Every folder defines the errors that it reports as an enum of its own. [`Errors`] holds any of them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// One or more errors, each complete in itself. Equal errors are those with the same text.
#[derive(Debug, Clone, Default)]
pub struct Errors(Vec<Arc<dyn Error + Send + Sync>>);

impl Errors {
    /// The text of each error, in order.
    pub fn messages(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    /// Adds an error, or all of another collection.
    pub fn extend(&mut self, other: impl Into<Errors>) {
        self.0.extend(other.into().0);
    }

    /// Replaces the errors of one type for which `new` returns another.
    pub fn replaced<E: Error + Send + Sync + 'static>(self, mut new: impl FnMut(&E) -> Option<E>) -> Errors {
        let replaced = self.0.into_iter().map(|error| match error.downcast_ref::<E>().and_then(&mut new) {
            Some(new) => Arc::new(new) as Arc<dyn Error + Send + Sync>,
            None => error,
        });
        Errors(replaced.collect())
    }

    /// `Ok(value)` if nothing was collected.
    pub fn or<T>(self, value: T) -> Result<T, Errors> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Errors {
    fn from(error: E) -> Self {
        Errors(vec![Arc::new(error)])
    }
}

impl<E: Into<Errors>> FromIterator<E> for Errors {
    fn from_iter<I: IntoIterator<Item = E>>(errors: I) -> Self {
        let mut all = Errors::default();
        errors.into_iter().for_each(|error| all.extend(error));
        all
    }
}

impl PartialEq for Errors {
    fn eq(&self, other: &Self) -> bool {
        self.messages() == other.messages()
    }
}

impl Eq for Errors {}

impl fmt::Display for Errors {
    /// Joins the texts of all errors.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.messages().join("; "))
    }
}

/// The operating system's own text. Some libraries wrap it in an error that repeats the path, which our messages already name.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    // tempfile's errors append the system's own to this text.
    text.split(" at path \"").next().unwrap_or_default().to_owned()
}

/// Collects the values of all results, or the errors of all that failed.
pub fn collect<T>(results: impl IntoIterator<Item = Result<T, Errors>>) -> Result<Vec<T>, Errors> {
    let mut values = Vec::new();
    let mut errors = Errors::default();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(error) => errors.extend(error),
        }
    }
    errors.or(values)
}

/// Both values, or the errors of both.
pub fn both<A, B>(first: Result<A, Errors>, second: Result<B, Errors>) -> Result<(A, B), Errors> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        (Err(mut errors), Err(more)) => {
            errors.extend(more);
            Err(errors)
        }
        (Err(errors), _) | (_, Err(errors)) => Err(errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{file}: no such file")]
    struct Missing {
        file: &'static str,
    }

    fn open(file: &'static str) -> Result<(), Errors> {
        Err(Missing { file })?;
        Ok(())
    }

    #[test]
    fn errors_of_several_types_are_collected_in_order() {
        let errors = collect([open("a"), Ok(()), open("b"), Err(std::fmt::Error.into())]).unwrap_err();
        assert_eq!(errors.messages(), ["a: no such file", "b: no such file", &std::fmt::Error.to_string()]);
        assert_eq!(errors.to_string(), errors.messages().join("; "));
    }

    #[test]
    fn errors_are_equal_if_their_texts_are() {
        assert_eq!(open("a"), Err(std::io::Error::other("a: no such file").into()));
        assert_ne!(open("a"), open("b"));
    }
}
