//! Who stands at the door: whoever shows a token, else a program of this host that needs none.
//!
//! On this host means: the other end is loopback, no proxy stands in between, and the name the client used is one of this host. Without
//! the last, a page of the web could ask through the browser of whoever reads it.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use loopwarden_settings::LocalClients;

use crate::http::access::principal::{Principal, Principals};
use crate::{http::access::host, http::listener::peer};

/// Why nobody known asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// A token would help.
    WithoutToken,
    /// Other hosts are not served at all.
    Elsewhere,
    /// On this host, but of another user, or of one that cannot be known.
    OtherUser,
    /// On this host, where everybody needs a token, and there is none.
    NoToken,
    /// The request comes by way of a page of somebody else.
    OtherPage,
}

/// What is asked, as far as it says who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    /// The host in the address, where the whole address stands in the request.
    pub(crate) authority: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub(crate) fn of<B>(request: &'a Request<B>) -> Self {
        let authority = request.uri().authority().map(axum::http::uri::Authority::as_str);
        Self { method: request.method(), headers: request.headers(), authority }
    }

    /// Whether it names its host once at most, as each request must.
    pub(crate) fn names_one_host(&self) -> bool {
        self.headers.get_all(header::HOST).iter().nth(1).is_none()
    }

    /// Whether the client sits on this host, as far as can be told.
    fn is_local(&self, ip: IpAddr) -> bool {
        const BY_A_PROXY: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];
        let is_proxied = BY_A_PROXY.iter().any(|name| self.headers.contains_key(HeaderName::from_static(name)));
        let is_named = self.headers.get_all(header::HOST).iter().all(|name| name.to_str().is_ok_and(host::is_loopback));
        ip.is_loopback() && !is_proxied && is_named && self.authority.is_none_or(host::is_loopback)
    }

    /// Whether a browser sends it for a page that is not ours. A link that leads here is its reader's own wish.
    pub(crate) fn is_of_another_page(&self) -> bool {
        let says = |name: &'static str| self.headers.get(HeaderName::from_static(name)).map(HeaderValue::as_bytes);
        let is_reading = self.method == Method::GET || self.method == Method::HEAD;
        let is_link = is_reading && says("sec-fetch-mode") == Some(b"navigate") && says("sec-fetch-dest") == Some(b"document");
        let is_own = says("sec-fetch-site").is_none_or(|site| site == b"same-origin" || site == b"none");
        !(is_own || is_link) || self.headers.get(header::ORIGIN).is_some_and(|origin| !self.is_own(origin))
    }

    fn is_own(&self, origin: &HeaderValue) -> bool {
        let host = self.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let origin = origin.to_str().unwrap_or_default();
        origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).is_some_and(|origin| origin == host)
    }
}

/// Who is let in.
#[derive(Debug, Clone)]
pub struct Door {
    principals: Principals,
    local: LocalClients,
    /// The user of this process; none where that cannot be known.
    user: Option<u32>,
}

impl Door {
    /// A door for whoever shows a token, and for those of this host that need none.
    #[must_use]
    pub fn new(principals: Principals, local: LocalClients) -> Self {
        Self { principals, local, user: peer::own_user() }
    }

    /// How many tokens open it.
    pub(crate) const fn tokens(&self) -> usize {
        self.principals.len()
    }

    /// Who asks by way of a socket file: who may open that is known to the operating system, but a page of the web has no business there.
    pub(crate) fn by_socket(&self, asked: &Asked<'_>) -> Result<Principal, Stranger> {
        let is_of_a_page = asked.is_of_another_page() || asked.headers.contains_key(header::ORIGIN);
        if is_of_a_page { Err(Stranger::OtherPage) } else { Ok(Principal::local(self.user)) }
    }

    /// Who asks from an address; `user_of` knows whose program that is.
    pub(crate) fn by_address(
        &self,
        ip: IpAddr,
        user_of: impl FnOnce() -> Option<u32>,
        asked: &Asked<'_>,
    ) -> Result<Principal, Stranger> {
        if asked.is_of_another_page() {
            return Err(Stranger::OtherPage);
        }
        let has_tokens = !self.principals.is_empty();
        let without = |stranger| if has_tokens { Stranger::WithoutToken } else { stranger };
        if let Some(given) = asked.headers.get(header::AUTHORIZATION).filter(|_| has_tokens) {
            let known = secret_of(given).and_then(|secret| self.principals.of(&secret).cloned());
            return known.ok_or(Stranger::WithoutToken);
        }
        if !asked.is_local(ip) {
            return Err(without(Stranger::Elsewhere));
        }
        match self.local {
            LocalClients::AnyUser => Ok(Principal::local(user_of())),
            LocalClients::Token => Err(without(Stranger::NoToken)),
            LocalClients::OwnUser => match user_of() {
                Some(user) if user == 0 || Some(user) == self.user => Ok(Principal::local(Some(user))),
                _ => Err(without(Stranger::OtherUser)),
            },
        }
    }
}

/// The secret in `Bearer …`, or the password in `Basic …`: browsers ask for the latter by themselves.
fn secret_of(given: &HeaderValue) -> Option<Vec<u8>> {
    let (scheme, rest) = given.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().as_bytes().to_vec());
    }
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(rest.trim()).ok())??;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon + 1..).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{http::access::principal::Roles, http::access::principal::Token};

    const OWN: u32 = 1_000;

    fn door(token: Option<&str>, local: LocalClients) -> Door {
        let mut principals = Principals::default();
        if let Some(token) = token {
            principals.add(Token::new(token.to_owned()), "token", Roles::ALL, None);
        }
        Door { user: Some(OWN), ..Door::new(principals, local) }
    }

    fn asked_by(user: Option<u32>, ip: &str, method: &Method, pairs: &[(&str, &str)], door: &Door) -> Result<String, Stranger> {
        let headers = pairs.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
        let headers: HeaderMap = headers.collect();
        let asked = Asked { method, headers: &headers, authority: None };
        door.by_address(ip.parse().unwrap(), || user, &asked).map(|principal| principal.name.to_string())
    }

    fn asked(ip: &str, method: &Method, pairs: &[(&str, &str)], token: Option<&str>) -> Result<(), Stranger> {
        asked_by(Some(OWN), ip, method, pairs, &door(token, LocalClients::OwnUser)).map(drop)
    }

    #[test]
    fn loopback_needs_no_token_but_a_name_of_this_host_and_no_proxy() {
        for host in ["localhost", "127.0.0.1:9464", "[::1]:9464"] {
            assert_eq!(asked("127.0.0.1", &Method::GET, &[("host", host)], None), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "", "localhost:x@evil"] {
            assert_eq!(asked("127.0.0.1", &Method::GET, &[("host", host)], None), Err(Stranger::Elsewhere), "{host}");
        }
        for proxy in ["forwarded", "x-forwarded-for", "x-real-ip"] {
            let pairs = [("host", "localhost"), (proxy, "10.0.0.1")];
            assert_eq!(asked("::1", &Method::GET, &pairs, None), Err(Stranger::Elsewhere), "{proxy}");
        }
        let (headers, method) = (HeaderMap::new(), Method::GET);
        for (authority, is_local) in [("localhost:80", true), ("evil.example", false)] {
            let asked = Asked { method: &method, headers: &headers, authority: Some(authority) };
            assert_eq!(asked.is_local(IpAddr::from([127, 0, 0, 1])), is_local, "{authority}");
        }
    }

    #[test]
    fn another_user_of_this_host_and_one_that_nobody_knows_need_a_token() {
        let by = |user, token, local| asked_by(user, "127.0.0.1", &Method::GET, &[], &door(token, local));
        assert_eq!(by(Some(OWN), None, LocalClients::OwnUser), Ok("uid-1000".to_owned()));
        assert_eq!(by(Some(0), None, LocalClients::OwnUser), Ok("uid-0".to_owned()));
        for user in [Some(1_001), None] {
            assert_eq!(by(user, None, LocalClients::OwnUser), Err(Stranger::OtherUser));
            assert_eq!(by(user, Some("s3cret"), LocalClients::OwnUser), Err(Stranger::WithoutToken));
            assert!(by(user, None, LocalClients::AnyUser).is_ok());
        }
        for user in [Some(OWN), Some(0), None] {
            assert_eq!(by(user, None, LocalClients::Token), Err(Stranger::NoToken));
            assert_eq!(by(user, Some("s3cret"), LocalClients::Token), Err(Stranger::WithoutToken));
        }
        let unknown = Door { user: None, ..door(None, LocalClients::OwnUser) };
        assert_eq!(asked_by(None, "::1", &Method::GET, &[], &unknown), Err(Stranger::OtherUser));
    }

    #[test]
    fn another_host_needs_exactly_the_token() {
        let with = |given: &str| asked("10.0.0.1", &Method::GET, &[("authorization", given)], Some("s3cret"));
        assert_eq!(with("Bearer s3cret"), Ok(()));
        assert_eq!(with("bearer  s3cret "), Ok(()));
        // anybody:s3cret
        assert_eq!(with("Basic YW55Ym9keTpzM2NyZXQ="), Ok(()));
        for wrong in
            ["Bearer s3cre", "Bearer s3crets", "Bearer ", "Bearer", "s3cret", "Basic !!", "Basic czNjcmV0", "Digest s3cret", ""]
        {
            assert_eq!(with(wrong), Err(Stranger::WithoutToken), "{wrong}");
        }
        assert_eq!(asked("10.0.0.1", &Method::GET, &[], Some("s3cret")), Err(Stranger::WithoutToken));
        assert_eq!(asked("10.0.0.1", &Method::GET, &[("authorization", "Bearer ")], None), Err(Stranger::Elsewhere));
        assert_eq!(asked("10.0.0.1", &Method::GET, &[("authorization", "Bearer ")], Some("")), Err(Stranger::WithoutToken));
        assert_eq!(
            asked("127.0.0.1", &Method::GET, &[("authorization", "Bearer x")], Some("s3cret")),
            Err(Stranger::WithoutToken)
        );
    }

    #[test]
    fn a_page_of_somebody_else_is_nobody_here() {
        let by = |method: &Method, pairs: &[(&str, &str)]| {
            let pairs = [&[("host", "localhost:9464")], pairs].concat();
            asked("127.0.0.1", method, &pairs, None)
        };
        let put = |origin: &str| by(&Method::PUT, &[("origin", origin)]);
        assert_eq!(put("http://localhost:9464"), Ok(()));
        for origin in ["http://evil.example", "null", "http://localhost:80", ""] {
            assert_eq!(put(origin), Err(Stranger::OtherPage), "{origin}");
        }
        let get = |site: &str, mode: &str, dest: &str| {
            by(&Method::GET, &[("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)])
        };
        for site in ["same-origin", "none"] {
            assert_eq!(get(site, "cors", "empty"), Ok(()), "{site}");
        }
        for site in ["cross-site", "same-site", "x"] {
            assert_eq!(get(site, "no-cors", "image"), Err(Stranger::OtherPage), "{site}");
            assert_eq!(get(site, "navigate", "iframe"), Err(Stranger::OtherPage), "{site}");
            assert_eq!(get(site, "navigate", "document"), Ok(()), "a link, {site}");
        }
    }
}
