//! Discord, <https://discord.com/developers/docs/resources/webhook#execute-webhook>.

use serde_json::{Value, json};

use crate::chat::notice::{Notice, cut};
use crate::link::Button;

/// Title of an embed, as it is sent. Characters.
const TITLE_CHARS_MAX: usize = 256;
/// Its text. Characters; 4,096 are taken, and 6,000 of all parts together.
const TEXT_CHARS_MAX: usize = 2_500;
/// Kinds of components, and the style of a button that opens an address.
const ROW: u8 = 1;
const BUTTON: u8 = 2;
const LINK: u8 = 5;
/// Value of a field. Characters; 1,024 are taken.
const VALUE_CHARS_MAX: usize = 400;

/// An embed. Nobody is mentioned, whatever stands in it.
pub(super) fn body(notice: &Notice, buttons: &[Button]) -> Value {
    let texts: Vec<String> =
        [&notice.summary, &notice.message].into_iter().filter(|text| !text.is_empty()).map(|text| escaped(text)).collect();
    let field = |name: &str, value: &str| json!({ "name": name, "value": short(value, VALUE_CHARS_MAX), "inline": true });
    let fields: Vec<Value> = notice.facts.iter().map(|fact| field(fact.name, &fact.value)).collect();
    let mut embed = json!({
        "title": short(&notice.title(), TITLE_CHARS_MAX),
        "description": whole(cut(texts.join("\n").chars(), TEXT_CHARS_MAX)),
        "color": colour(&notice.action),
        "fields": fields,
    });
    if let Some(embed) = embed.as_object_mut().filter(|_| !notice.issued_at.is_empty()) {
        embed.insert("timestamp".to_owned(), Value::from(notice.issued_at.as_str()));
    }
    let mut body = json!({ "embeds": [embed], "allowed_mentions": { "parse": [] } });
    let link = |button: &Button| json!({ "type": BUTTON, "style": LINK, "label": button.answer.label(), "url": button.url });
    if let Some(body) = body.as_object_mut().filter(|_| !buttons.is_empty()) {
        let row = json!({ "type": ROW, "components": buttons.iter().map(link).collect::<Vec<_>>() });
        body.insert("components".to_owned(), json!([row]));
    }
    body
}

/// The URL of a webhook that is to show buttons: without this parameter Discord leaves them out.
pub(crate) fn with_components(url: &str) -> String {
    format!("{url}{}with_components=true", if url.contains('?') { '&' } else { '?' })
}

/// Escaped, and at most so long then.
fn short(text: &str, chars_max: usize) -> String {
    whole(cut(escaped(text).chars(), chars_max))
}

/// Without an escape that has lost its character.
fn whole(mut text: String) -> String {
    let rest = text.strip_suffix('…').unwrap_or(&text);
    if rest.chars().rev().take_while(|letter| *letter == '\\').count() % 2 == 1 {
        let end = rest.len() - 1;
        text.replace_range(end..=end, "");
    }
    text
}

/// Markdown is escaped by a backslash, which Discord takes before whatever is no letter, digit or blank. So no address becomes a link either.
fn escaped(text: &str) -> String {
    let escape =
        |letter: char| letter.is_ascii_punctuation() && !matches!(letter, '.' | ',' | '\'' | '"' | ';' | '%' | '/' | '?');
    text.chars().flat_map(|letter| escape(letter).then_some('\\').into_iter().chain([letter])).collect()
}

/// The strip beside the embed, as 0xRRGGBB.
fn colour(action: &str) -> u32 {
    match action {
        "block" => 0x00b3_261e,
        "unblock" => 0x001e_6e42,
        _ => 0x009a_5b00,
    }
}
