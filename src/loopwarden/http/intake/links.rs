//! `/a/{token}`: a link in a message, by which whoever has it answers a command. Opening it changes nothing, since chats and mail servers
//! open links to show what is behind them: the page asks once more.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use loopwarden_core::event::{EventTime, is_unseen};
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_sources::Tenants;
use loopwarden_webhook::{AnswerKind, BadLink, Link};
use maud::{DOCTYPE, Markup, html};

use crate::http::access::principal::{Principal, Role, Roles};
use crate::{
    clock, http::access::principal::LinkRights, http::access::principal::Purse, http::answer, http::answer::Refusal,
    http::intake::answers, http::intake::answers::Given, http::intake::effect::ActEffect, http::listener::body::BodyLimit,
    http::shared::Process, operate::act::LoopAddress,
};

/// What the form may send. Bytes.
const BODY: BodyLimit = BodyLimit { bytes_max: 4 * 1024, what: "an answer", advice: "" };
/// Longest name that somebody may type. Characters.
const NAME_CHARS_MAX: usize = 64;
/// How long an allowance or a stop of a link lasts, as its button has it. Milliseconds.
const SPAN_MS: i64 = 3_600_000;
/// Nothing from elsewhere, in nobody's frame; the form leads back here.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const STYLE: &str = ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:2rem auto;\
     padding:0 1rem;overflow-wrap:anywhere}dt{opacity:.7}dd{margin:0 0 .5rem}button,input{font:inherit;padding:.5rem 1rem;\
     max-width:100%}";

/// A page, and its status.
type Shown = (StatusCode, Markup);

/// Shows what a link would do.
pub(crate) async fn show(State(process): State<Arc<Process>>, Path(token): Path<String>) -> Response {
    page(checked(&process, &token).map_or_else(|why| why, |(link, _)| (StatusCode::OK, asks(&link))))
}

/// Gives the answer of a link, once its form was sent.
pub(crate) async fn act(
    State(process): State<Arc<Process>>,
    Path(token): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    page(acted(&process, &token, &headers, body).await.unwrap_or_else(|why| why))
}

async fn acted(process: &Arc<Process>, token: &str, headers: &HeaderMap, body: Body) -> Result<Shown, Shown> {
    let (link, who) = checked(process, token)?;
    let (body, _memory) = process.shared.bodies.collect(headers, body, BODY).await.map_err(nothing)?;
    let name = typed_name(&body).map_err(|why| refused(StatusCode::BAD_REQUEST, why))?;
    if link.is_test {
        return Ok((StatusCode::OK, plain("This link works", "Its command was a test. Nothing was changed.")));
    }
    let of = LoopAddress {
        session: Whom::new(&link.tenant, Kind::Session, &link.session_id),
        agent_id: Some(&link.agent_id).filter(|id| !id.is_empty()).cloned(),
        episode: link.episode.clone(),
    };
    let span_ms = match link.answer {
        AnswerKind::Allow | AnswerKind::Stop => SPAN_MS,
        AnswerKind::Right | AnswerKind::FalseAlarm => 0,
    };
    let (command_id, typed_name) = (Some(link.command_id.as_str()), name.as_deref());
    let given = Given { of, command_id, kind: link.answer, span_ms, reason: None, typed_name, id: None };
    let became = answers::give(process, &who, &given).await.map_err(nothing)?;
    let until = became.until.map(|until| format!(" It ends at {}.", until.to_rfc3339())).unwrap_or_default();
    let text = match became.became {
        ActEffect::InForce => format!("It is in force.{until}"),
        ActEffect::Waits => format!("It is taken, and in force once it is judged.{until}"),
        ActEffect::Nothing(why) => return Err(refused(StatusCode::CONFLICT, &why.words().1)),
    };
    Ok((StatusCode::OK, plain("Answered", &text)))
}

/// The link that a token is, and who acts by it; else the page with the reason why it does nothing.
fn checked(process: &Process, token: &str) -> Result<(Link, Principal), Shown> {
    let unknown = || refused(StatusCode::NOT_FOUND, "This is no link of this process, or it was changed on its way.");
    let links = process.links.as_ref().ok_or_else(unknown)?;
    let link = links.key.read(token, EventTime(clock::now_ms())).map_err(|why| match why {
        BadLink::Altered => unknown(),
        BadLink::Expired => refused(StatusCode::GONE, "This link has expired. Newer messages have newer links."),
    })?;
    let rights = links.webhooks.get(&link.webhook);
    let may = |rights: &&LinkRights| {
        rights.answers.contains(&link.answer) && rights.tenant.as_ref().is_none_or(|tenant| *tenant == link.tenant)
    };
    let rights = rights.filter(may).ok_or_else(|| {
        refused(StatusCode::FORBIDDEN, "The settings of its webhook do not allow this answer by a link any more (links).")
    })?;
    let tenants = rights.tenant.as_ref().map_or(Tenants::ALL, |tenant| Tenants::only(std::slice::from_ref(tenant)));
    let name = format!("link:{}", link.webhook).into();
    Ok((link, Principal { name, roles: Roles::of(&[Role::Operator]), tenants, purse: Purse::Local }))
}

/// What stands in the field of the form; nobody has to type anything.
fn typed_name(body: &[u8]) -> Result<Option<String>, &'static str> {
    let name = form_urlencoded::parse(body).find(|(name, _)| name == "name").map(|(_, value)| value.trim().to_owned());
    match name.filter(|name| !name.is_empty()) {
        Some(name) if name.chars().count() > NAME_CHARS_MAX || name.chars().any(is_unseen) => {
            Err("A name is one line of at most 64 characters.")
        }
        name => Ok(name),
    }
}

const fn does(answer: AnswerKind) -> &'static str {
    match answer {
        AnswerKind::Right => "It was right: this is a loop. That is kept, and nothing else changes.",
        AnswerKind::FalseAlarm => "It was a false alarm: this loop is let be for the rest of its session.",
        AnswerKind::Allow => "This loop may go on for an hour.",
        AnswerKind::Stop => "This session is stopped for an hour, with all of its agents.",
    }
}

fn asks(link: &Link) -> Markup {
    let until = link.expires.to_rfc3339();
    let facts = [
        ("Session", &link.session_id),
        ("Agent", &link.agent_id),
        ("Tenant", &link.tenant),
        ("Loop", &link.episode),
        ("Message of", &link.webhook),
        ("This link holds until", &until),
    ];
    html! {
        h1 { (link.answer.label()) "?" }
        p { (does(link.answer)) }
        dl {
            @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
                dt { (name) } dd { (value) }
            }
        }
        form method="post" {
            p { label { "Your name, if it is to be kept with the answer (nobody checks it): "
                input name="name" maxlength=(NAME_CHARS_MAX) autocomplete="name"; } }
            button { (link.answer.label()) }
        }
        p { "Nothing has happened yet." }
    }
}

fn plain(title: &str, text: &str) -> Markup {
    html! { h1 { (title) } p { (text) } }
}

fn refused(status: StatusCode, why: &str) -> Shown {
    (status, plain("Nothing was changed", why))
}

/// The page of a refusal that was made for programs.
fn nothing(refusal: Refusal) -> Shown {
    let response = refusal.into_response();
    let why = answer::sentence(&response);
    refused(response.status(), if why.is_empty() { "The answer was not taken." } else { why })
}

fn page((status, body): Shown) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "loopwarden" }
                // Else browsers ask for one.
                link rel="icon" href="data:,";
                style { (maud::PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    let mut response = answer::with_type(status, "text/html; charset=utf-8", page.into_string());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_bounded_line_and_no_markup() {
        assert_eq!(typed_name(b""), Ok(None));
        assert_eq!(typed_name(b"name=+&x=1"), Ok(None));
        assert_eq!(typed_name(b"name=Ann%20%26+Bob%C3%A9"), Ok(Some("Ann & Bobé".to_owned())));
        for bad in ["name=a%0Ab".to_owned(), "name=%E2%80%AEa".to_owned(), format!("name={}", "x".repeat(65))] {
            assert!(typed_name(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(typed_name(&[b'\xff'; 8]).is_ok());
    }

    #[test]
    fn a_name_of_an_agent_is_text_on_the_page() {
        let odd = "<script>\"'&";
        let link = Link {
            answer: AnswerKind::Stop,
            expires: EventTime(0),
            webhook: odd.to_owned(),
            command_id: odd.to_owned(),
            episode: odd.to_owned(),
            tenant: odd.to_owned(),
            session_id: odd.to_owned(),
            agent_id: odd.to_owned(),
            is_test: false,
        };
        let shown = asks(&link).into_string();
        assert!(!shown.contains("<script") && shown.contains("&lt;script&gt;"), "{shown}");
    }
}
