//! Slack, <https://api.slack.com/messaging/webhooks> and <https://api.slack.com/reference/block-kit/blocks>.

use serde_json::{Value, json};

use crate::chat::notice::{Notice, cut};
use crate::link::{AnswerKind, Button};

/// Text of a header block, which Slack refuses when longer. Characters.
const HEADER_CHARS_MAX: usize = 150;

/// Blocks of `plain_text`, in which Slack formats nothing; the text of notifications is escaped. No link is opened for a preview.
pub(super) fn body(notice: &Notice, buttons: &[Button]) -> Value {
    let title = notice.title();
    let plain = |text: &str| json!({ "type": "plain_text", "text": text, "emoji": false });
    let mut blocks = vec![json!({ "type": "header", "text": plain(&cut(title.chars(), HEADER_CHARS_MAX)) })];
    let sections = [&notice.summary, &notice.message].into_iter().filter(|text| !text.is_empty());
    blocks.extend(sections.map(|text| json!({ "type": "section", "text": plain(text) })));
    let facts: Vec<Value> = notice.facts.iter().map(|fact| plain(&format!("{}: {}", fact.name, fact.value))).collect();
    if !facts.is_empty() {
        blocks.push(json!({ "type": "section", "fields": facts }));
    }
    // Each opens its address; nothing comes back by way of Slack.
    let link = |button: &Button| {
        let mut link = json!({ "type": "button", "text": plain(button.answer.label()), "url": button.url });
        if let Some(fields) = link.as_object_mut().filter(|_| button.answer == AnswerKind::Stop) {
            fields.insert("style".to_owned(), Value::from("danger"));
        }
        link
    };
    if !buttons.is_empty() {
        blocks.push(json!({ "type": "actions", "elements": buttons.iter().map(link).collect::<Vec<_>>() }));
    }
    let text = escaped(&format!("{title}: {}", notice.summary));
    json!({ "text": text, "mrkdwn": false, "link_names": false, "unfurl_links": false, "unfurl_media": false, "blocks": blocks })
}

/// The three characters by which Slack knows mentions and links, <https://api.slack.com/reference/surfaces/formatting#escaping>.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
