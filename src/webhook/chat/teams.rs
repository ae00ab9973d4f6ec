//! Microsoft Teams: an adaptive card for a workflow "When a Teams webhook request is received",
//! <https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using>.

use serde_json::{Value, json};

use crate::{chat::notice::Notice, link::Button};

/// Runs of text in rich blocks, in which cards know no Markdown and no function. A mention would need a list of entities, which is not there.
pub(super) fn body(notice: &Notice, buttons: &[Button]) -> Value {
    let run = |text: &str, weight: &str| json!({ "type": "TextRun", "text": text, "weight": weight });
    let rich = |runs: Vec<Value>| json!({ "type": "RichTextBlock", "inlines": runs });
    let mut rows = vec![rich(vec![run(&notice.title(), "Bolder")])];
    let texts = [&notice.summary, &notice.message].into_iter().filter(|text| !text.is_empty());
    rows.extend(texts.map(|text| rich(vec![run(text, "Default")])));
    let facts = notice.facts.iter();
    rows.extend(facts.map(|fact| rich(vec![run(&format!("{}: ", fact.name), "Bolder"), run(&fact.value, "Default")])));
    let open = |button: &Button| json!({ "type": "Action.OpenUrl", "title": button.answer.label(), "url": button.url });
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.2",
                "body": rows,
                "actions": buttons.iter().map(open).collect::<Vec<_>>(),
            },
        }],
    })
}
