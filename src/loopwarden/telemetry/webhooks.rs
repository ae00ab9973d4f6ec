//! What webhooks show of themselves, each under its name in the settings.

use loopwarden_lane::{Samples, Value};
use loopwarden_webhook::WebhookReport;

/// Name without the prefix, labels, help, values. A name that ends in `_total` is a counter.
pub(super) type Row = (&'static str, &'static [&'static str], &'static str, fn(&WebhookReport) -> Vec<(&'static str, f64)>);

/// All of them. A value without a word has the name of the webhook alone.
pub(super) const ROWS: &[Row] = &[
    ("webhook_up", &["webhook"], "Whether commands are read, and the receiver has not said that it is gone", |webhook| {
        one(f64::from(u8::from(webhook.is_up)))
    }),
    ("webhook_requests_total", &["webhook", "answer"], "Requests, by what became of them", |WebhookReport { stats, .. }| {
        counts(&[("accepted", stats.accepted), ("again", stats.again), ("none", stats.unanswered), ("refused", stats.refused)])
    }),
    (
        "webhook_passed_total",
        &["webhook", "why"],
        "Commands that were not sent, or will not be",
        |WebhookReport { stats, .. }| {
            counts(&[
                ("refused", stats.refused),
                ("expired", stats.expired),
                ("filtered", stats.filtered),
                ("unreadable", stats.unreadable),
                ("lost", stats.lost),
            ])
        },
    ),
    ("webhook_waiting_seconds", &["webhook"], "How long the command at the head of the line has been tried", |webhook| {
        one(webhook.waiting.map_or(0.0, |since| since.elapsed().as_secs_f64()))
    }),
    ("webhook_behind_commands", &["webhook"], "Commands to send, on the embedded log", |webhook| {
        webhook.behind.map_or_else(Vec::new, |behind| one(behind as f64))
    }),
];

fn one(value: f64) -> Vec<(&'static str, f64)> {
    vec![("", value)]
}

fn counts(counts: &[(&'static str, u64)]) -> Vec<(&'static str, f64)> {
    counts.iter().map(|(word, count)| (*word, *count as f64)).collect()
}

/// The samples of one row.
pub(super) fn samples(webhooks: &[WebhookReport], read: fn(&WebhookReport) -> Vec<(&'static str, f64)>) -> Samples {
    let labels = |name: &str, word: &str| {
        let word = Some(word).filter(|word| !word.is_empty());
        std::iter::once(name).chain(word).map(str::to_owned).collect::<Vec<String>>()
    };
    let of = |webhook: &WebhookReport| {
        let name = webhook.name.clone();
        read(webhook).into_iter().map(move |(word, value)| (labels(&name, word), Value::Number(value)))
    };
    webhooks.iter().flat_map(of).collect()
}
