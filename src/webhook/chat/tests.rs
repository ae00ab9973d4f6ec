//! Hostile and long names in each form, and what an incident is.

use serde_json::json;

use super::*;
use crate::link::AnswerKind;

const ALL: [Chat; 4] = [Chat::Slack, Chat::Teams, Chat::Discord, Chat::PagerDuty];

/// Names that mention everybody, link, format, break lines and turn the direction of a text.
const HOSTILE: &str =
    "<!channel> <@U1> @everyone [x](https://e.vil) **b** `c` <at>a</at> {{DATE(x)}} \\[y](https://e.vil)\n# big\u{202e}";

fn command(name: &str, action: &str) -> Value {
    json!({
        "v": 1, "id": "01", "action": action, "tenant": name, "session_id": name, "episode": "0E", "mode": "live",
        "issued_at": "2026-11-21T20:00:03.120Z", "expires_at": "2026-11-21T20:10:03.120Z", "message": name,
        "scope": { "kind": "session", "agent_id": name, "tool": name },
        "reason": { "code": "similar_repeat", "summary": name },
    })
}

fn sent(chat: Chat, name: &str, action: &str) -> Value {
    serde_json::from_slice(&body(chat, &command(name, action), &[])).expect("JSON")
}

/// Links as long as they can be.
fn buttons() -> Vec<Button> {
    AnswerKind::ALL.map(|answer| Button { answer, url: format!("https://w.example/a/{:x<492}", answer.as_str()) }).to_vec()
}

/// Each text of a document, with the pointer to it.
fn texts(value: &Value, at: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((at.to_owned(), text.clone())),
        Value::Array(items) => items.iter().for_each(|item| texts(item, at, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| texts(value, &format!("{at}/{name}"), found)),
        _ => {}
    }
}

fn all_texts(value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    texts(value, "", &mut found);
    found
}

#[test]
fn no_name_breaks_a_line_or_turns_a_text() {
    for chat in ALL {
        for (at, text) in all_texts(&sent(chat, HOSTILE, "block")) {
            let is_odd = |letter: char| (letter.is_control() && at != "/embeds/description") || letter == '\u{202e}';
            assert!(!text.contains(is_odd), "{chat:?} {at}: {text:?}");
        }
    }
}

#[test]
fn slack_formats_nothing_of_a_name() {
    let sent = sent(Chat::Slack, HOSTILE, "block");
    for (at, text) in all_texts(&sent).iter().filter(|(at, _)| at.starts_with("/blocks") && at.ends_with("/type")) {
        assert!(["header", "section", "plain_text"].contains(&text.as_str()), "{at}: {text}");
    }
    let text = sent["text"].as_str().expect("a text");
    assert!(!text.contains(['<', '>']) && text.contains("&lt;!channel&gt;"), "{text}");
    assert_eq!([&sent["mrkdwn"], &sent["link_names"], &sent["unfurl_links"]], [false, false, false]);
}

#[test]
fn a_card_has_text_only_where_cards_know_no_markdown() {
    let sent = sent(Chat::Teams, HOSTILE, "block");
    let types: Vec<String> = all_texts(&sent).into_iter().filter(|(at, _)| at.ends_with("/type")).map(|(_, text)| text).collect();
    assert!(
        types.iter().all(|kind| ["message", "AdaptiveCard", "RichTextBlock", "TextRun"].contains(&kind.as_str())),
        "{types:?}"
    );
    assert!(sent.pointer("/attachments/0/content/msteams").is_none(), "no list of mentions");
}

#[test]
fn discord_mentions_nobody_and_every_sign_of_its_markdown_is_escaped() {
    let sent = sent(Chat::Discord, HOSTILE, "block");
    assert_eq!(sent["allowed_mentions"], json!({ "parse": [] }));
    assert_eq!(sent["content"], Value::Null);
    let marked = |at: &String| ["/embeds/title", "/embeds/description", "/embeds/fields/value"].contains(&at.as_str());
    for (at, text) in all_texts(&sent).into_iter().filter(|(at, _)| marked(at)) {
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            if letter == '\\' {
                assert!(letters.next().is_some_and(|next| next.is_ascii_punctuation()), "{at}: {text}");
            } else {
                assert!(!"*_~`|>#[]()<@:-!{}".contains(letter), "{at}: {letter:?} in {text}");
            }
        }
    }
}

#[test]
fn where_a_person_is_asked_for_the_first_line_says_so() {
    let mut nudge = command("s", "nudge");
    for (chat, at) in [
        (Chat::Slack, "/text"),
        (Chat::Teams, "/attachments/0/content/body/0/inlines/0/text"),
        (Chat::Discord, "/embeds/0/title"),
        (Chat::PagerDuty, "/payload/summary"),
    ] {
        for advice in ["wait", "ask_human"] {
            nudge["advice"] = json!(advice);
            let sent: Value = serde_json::from_slice(&body(chat, &nudge, &[])).expect("JSON");
            let title = sent.pointer(at).and_then(Value::as_str).expect("a title");
            assert_eq!(title.contains("a person is asked for"), advice == "ask_human", "{chat:?}: {title}");
        }
    }
}

#[test]
fn an_unblock_resolves_the_incident_of_its_loop_and_no_other() {
    let of = |action| sent(Chat::PagerDuty, "s", action);
    let (block, unblock) = (of("block"), of("unblock"));
    assert_eq!([&block["event_action"], &unblock["event_action"]], ["trigger", "resolve"]);
    assert_eq!(block["dedup_key"], unblock["dedup_key"]);
    let mut other = command("s", "block");
    other["episode"] = json!("0F");
    let other: Value = serde_json::from_slice(&body(Chat::PagerDuty, &other, &[])).expect("JSON");
    assert_ne!(block["dedup_key"], other["dedup_key"]);
    assert_eq!([&block, &of("nudge")].map(|event| event["payload"]["severity"].clone()), ["error", "warning"]);
    let keyed: Value =
        serde_json::from_slice(&with_routing_key(&body(Chat::PagerDuty, &command("s", "block"), &[]), "R1")).expect("JSON");
    assert_eq!((&keyed["routing_key"], &keyed["dedup_key"]), (&json!("R1"), &block["dedup_key"]));
}

/// Long names of letters that each provider counts as one, and that take four bytes, or are escaped to two or five.
#[test]
fn the_longest_command_is_within_what_each_provider_takes() {
    for letter in ["a", "<", "\\", "*", "\u{1f600}"] {
        let name = letter.repeat(5_000);
        let slack = sent(Chat::Slack, &name, "block");
        for (at, text) in all_texts(&slack) {
            let most = match at.as_str() {
                "/blocks/text/text" => 3_000,
                "/blocks/fields/text" => 2_000,
                _ => 4_000,
            };
            assert!(text.chars().count() <= most, "{at}: {}", text.chars().count());
        }
        let header = slack.pointer("/blocks/0/text/text").and_then(Value::as_str).expect("a header");
        assert!(header.chars().count() <= 150 && header.ends_with('…'));
        assert!(body(Chat::Teams, &command(&name, "block"), &buttons()).len() <= 28_000, "{letter}");
        let discord = sent(Chat::Discord, &name, "block");
        let counted: usize = all_texts(&discord).iter().map(|(_, text)| text.chars().count()).sum();
        assert!(counted <= 6_000, "{counted}");
        for (at, text) in all_texts(&discord) {
            let most = match at.as_str() {
                "/embeds/title" | "/embeds/fields/name" => 256,
                "/embeds/description" => 4_096,
                _ => 1_024,
            };
            let count = text.chars().count();
            assert!((1..=most).contains(&count), "{at}: {count}");
            let rest = text.trim_end_matches('…');
            assert_eq!(rest.chars().rev().take_while(|letter| *letter == '\\').count() % 2, 0, "a lonely escape: {at}");
        }
        let event = sent(Chat::PagerDuty, &name, "block");
        let length = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).expect("a text").chars().count();
        assert!(length("/payload/summary") <= 1_024 && length("/dedup_key") <= 255);
        assert!(body(Chat::PagerDuty, &command(&name, "block"), &buttons()).len() <= 512 * 1_024);
    }
}

/// Where each provider has its links: pointers to the list, and to text and address of one.
#[test]
fn each_answer_is_a_link_where_the_provider_has_its_links_and_calls_nobody_back() {
    for (chat, list, text, address) in [
        (Chat::Slack, "/blocks/4/elements", "/text/text", "/url"),
        (Chat::Teams, "/attachments/0/content/actions", "/title", "/url"),
        (Chat::Discord, "/components/0/components", "/label", "/url"),
        (Chat::PagerDuty, "/links", "/text", "/href"),
    ] {
        let sent: Value = serde_json::from_slice(&body(chat, &command("s", "block"), &buttons())).expect("JSON");
        let links = sent.pointer(list).and_then(Value::as_array).expect("links");
        let found: Vec<(&str, &str)> = links
            .iter()
            .map(|link| [text, address].map(|at| link.pointer(at).and_then(Value::as_str).expect("a text")))
            .map(|[text, address]| (text, address))
            .collect();
        let expected = buttons();
        let expected: Vec<(&str, &str)> = expected.iter().map(|button| (button.answer.label(), &*button.url)).collect();
        assert_eq!(found, expected, "{chat:?}");
        assert!(!sent.to_string().contains("custom_id"), "{chat:?}");
    }
    assert_eq!(with_components("https://d.example/w/1"), "https://d.example/w/1?with_components=true");
    assert_eq!(with_components("https://d.example/w/1?wait=true"), "https://d.example/w/1?wait=true&with_components=true");
}

#[test]
fn what_is_no_command_becomes_a_message_all_the_same() {
    for odd in [json!({}), json!([1]), json!("x"), json!({ "session_id": 7, "scope": null, "issued_at": "soon", "reason": [] })] {
        for chat in ALL {
            let sent: Value = serde_json::from_slice(&body(chat, &odd, &[])).expect("JSON");
            assert!(sent.is_object() && !sent.to_string().contains("soon"), "{chat:?}: {sent}");
        }
    }
}

#[test]
fn whom_a_budget_or_an_operator_binds_is_named() {
    let title = |scope: Value| {
        let mut command = command("acme", "block");
        command.as_object_mut().unwrap().remove("session_id");
        command["scope"] = scope;
        Notice::of(&command).title()
    };
    for (scope, subject) in [
        (json!({ "kind": "label", "name": "team=a", "by": "budget/b/day" }), "label team=a"),
        (json!({ "kind": "tenant", "by": "budget/b/day" }), "tenant acme"),
        (json!({ "kind": "agent", "name": "fixer", "by": "stop" }), "agent fixer"),
        (json!({ "kind": "tenant", "by": "stop" }), "tenant acme"),
        (json!({ "kind": "all", "by": "stop" }), "everybody"),
        (json!({ "kind": "tenant", "fingerprint": "00" }), "tenant acme"),
    ] {
        assert_eq!(title(scope), format!("loopwarden: block for {subject}"));
    }
}
