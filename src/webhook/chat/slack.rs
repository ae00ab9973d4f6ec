//! Slack, <https://api.slack.com/messaging/webhooks> and <https://api.slack.com/reference/block-kit/blocks>.

use serde_json::{Value, json};

use crate::chat::notice::{Notice, cut};

/// Text of a header block, which Slack refuses when longer. Characters.
const HEADER_CHARS_MAX: usize = 150;

/// Blocks of `plain_text`, in which Slack formats nothing; the text of notifications is escaped. No link is opened for a preview.
pub(super) fn body(notice: &Notice) -> Value {
    let title = notice.title();
    let plain = |text: &str| json!({ "type": "plain_text", "text": text, "emoji": false });
    let mut blocks = vec![json!({ "type": "header", "text": plain(&cut(title.chars(), HEADER_CHARS_MAX)) })];
    let sections = [&notice.summary, &notice.message].into_iter().filter(|text| !text.is_empty());
    blocks.extend(sections.map(|text| json!({ "type": "section", "text": plain(text) })));
    let facts: Vec<Value> = notice.facts.iter().map(|fact| plain(&format!("{}: {}", fact.name, fact.value))).collect();
    if !facts.is_empty() {
        blocks.push(json!({ "type": "section", "fields": facts }));
    }
    let text = escaped(&format!("{title}: {}", notice.summary));
    json!({ "text": text, "mrkdwn": false, "link_names": false, "unfurl_links": false, "unfurl_media": false, "blocks": blocks })
}

/// The three characters by which Slack knows mentions and links, <https://api.slack.com/reference/surfaces/formatting#escaping>.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
