//! What names and URLs must be.

/// Longest URL of a setting. Bytes.
const URL_MAX: usize = 2_048;

/// Letters, digits, `.`, `_`, `-`: what topics and ids may hold.
pub(crate) fn plain_name<const CHARS_MAX: usize>(name: &str) -> Result<String, Vec<String>> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if name.is_empty() || name.len() > CHARS_MAX || !is_plain || name == "." || name == ".." {
        let shown: String = name.chars().take(64).collect();
        return Err(vec![format!("is {shown:?}, but must be 1 to {CHARS_MAX} letters, digits, '.', '_' or '-'")]);
    }
    Ok(name.to_owned())
}

/// Words of a list separated by commas, without the spaces around them.
pub(crate) fn listed(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).collect()
}

/// The same list without these spaces, where each word is known.
pub(crate) fn words_of(list: &str, known: &[&str]) -> Result<String, Vec<String>> {
    let words = listed(list);
    match words.iter().find(|word| !known.contains(word)) {
        None => Ok(words.join(",")),
        Some(wrong) => Err(vec![format!("holds {:?}, but must be {}, separated by commas", shown(wrong), known.join(", "))]),
    }
}

/// Whether it could be sent in a request line and names nobody's password.
fn is_plain(url: &str) -> bool {
    url.len() <= URL_MAX && url.bytes().all(|byte| byte.is_ascii_graphic()) && !url.contains(['@', '#'])
}

fn is_of_this_host(rest: &str) -> bool {
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    host == "localhost" || ["localhost:", "127.0.0.1:", "[::1]:"].iter().any(|begin| host.starts_with(begin))
}

/// Whether a secret may be sent there: encrypted, or not over any network.
pub(crate) fn is_safe(url: &str) -> bool {
    match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => !rest.is_empty(),
        (None, Some(rest)) => is_of_this_host(rest),
        (None, None) => false,
    }
}

fn shown(url: &str) -> String {
    url.chars().take(64).collect()
}

/// Where a secret may be sent.
pub(crate) fn issuer(url: &str) -> Result<String, Vec<String>> {
    if is_plain(url) && is_safe(url) {
        Ok(url.to_owned())
    } else {
        Err(vec![format!("is {:?}, but must be a URL with https, or with http on this host", shown(url))])
    }
}

/// Longest URL that links begin with. Bytes.
const PUBLIC_URL_MAX: usize = 200;

/// Where links lead: what they name is a credential. Without the slash at its end.
pub(crate) fn public(url: &str) -> Result<String, Vec<String>> {
    let begin = url.trim_end_matches('/');
    if is_plain(begin) && is_safe(begin) && begin.len() <= PUBLIC_URL_MAX && !begin.contains(['?', '"', '<', '>']) {
        Ok(begin.to_owned())
    } else {
        let form = format!("must be a URL of at most {PUBLIC_URL_MAX} characters with https, or with http on this host");
        Err(vec![format!("is {:?}, but {form}", shown(url))])
    }
}

/// A proxy, or the word for that of the environment.
pub(crate) fn proxy(url: &str) -> Result<String, Vec<String>> {
    let authority = url.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let port = authority.and_then(|authority| authority.rsplit_once(':')).filter(|(host, _)| !host.is_empty());
    let is_proxy = is_plain(url) && !authority.is_some_and(|rest| rest.contains(['/', '?']));
    if url == "environment" || is_proxy && port.is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        Ok(url.to_owned())
    } else {
        Err(vec![format!("is {:?}, but must be http://HOST:PORT without a password, or environment", shown(url))])
    }
}

/// Where commands may be sent.
pub(crate) fn target(url: &str) -> Result<String, Vec<String>> {
    if is_target(url) {
        Ok(url.to_owned())
    } else {
        Err(vec![format!("is {:?}, but must be a URL with http or https", shown(url))])
    }
}

/// The same of a URL that may be a secret itself.
pub(crate) fn is_target(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    is_plain(url) && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', ':']))
}
