//! A token in a file that something else renews, as Kubernetes does with projected tokens of service accounts.

use std::{fs::File, io::Read as _, path::Path};

use crate::jwt::Claims;
use crate::{TOKEN_BYTES_MAX, Token, TokenError, sound};

/// The text of a small file without white space around it.
pub(crate) fn text(path: &Path, what: &str) -> Result<String, TokenError> {
    let fail = |cause: &str| TokenError::passing(format!("{what} {}: {cause}", path.display()));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| fail(&error.to_string()))?;
    file.take(TOKEN_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(|error| fail(&error.to_string()))?;
    Ok(text.trim().to_owned())
}

/// The text of a small file that is sent as a secret in a header. `what` names it in messages, which do not have it: `the token in`.
///
/// # Errors
/// It cannot be read, is empty or above 64 KiB, or holds what no header may.
pub fn secret_text(path: &Path, what: &str) -> Result<String, TokenError> {
    let text = text(path, what)?;
    sound(&text).map_err(|cause| TokenError::passing(format!("{what} {} {cause}", path.display())))?;
    Ok(text)
}

/// Reads the token. It may be a moment between two, so that nothing here is a refusal.
pub(crate) fn read(path: &Path, now_ms: i64) -> Result<Token, TokenError> {
    let fail = |cause: &str| TokenError::passing(format!("the token in {} {cause}", path.display()));
    let text = text(path, "the token in")?;
    let value = sound(&text).map_err(fail)?;
    let Claims { expires_ms, subject } = Claims::of(value);
    let expires_ms = expires_ms.ok_or_else(|| fail("does not say when it ends: it must be a JWT with exp"))?;
    if expires_ms <= now_ms {
        return Err(fail(&format!("ended {} s ago: who writes the file must renew it", (now_ms - expires_ms) / 1_000)));
    }
    Ok(Token { value: value.to_owned(), principal: subject, expires_ms })
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    #[test]
    fn a_file_is_taken_as_it_is_now_and_what_is_no_token_is_told_without_it() {
        let path = std::env::temp_dir().join(format!("loopwarden-token-{}", std::process::id()));
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        assert!(read(&path, 0).expect_err("there is none").message.contains("No such file"));
        let token = format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(r#"{"exp":7,"sub":"me"}"#));
        write(&format!("{token}\n"));
        assert_eq!(read(&path, 6_999), Ok(Token { value: token, principal: "me".into(), expires_ms: 7_000 }));
        assert!(
            read(&path, 9_000).expect_err("it is over").message.ends_with("ended 2 s ago: who writes the file must renew it")
        );
        for (bad, says) in [("", "is empty"), ("s3cret", "must be a JWT"), ("s3 cret", "no token has")] {
            write(bad);
            let error = read(&path, 0).expect_err("no token");
            assert!(error.message.contains(says) && !error.message.contains("cret") && !error.is_refused, "{error}");
        }
        std::fs::remove_file(&path).expect("removed");
    }
}
