//! What a race says: medians and ratios of its lines, and the part of the page on performance that is made of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::ratio::{Spread, rounded};
use crate::systems::{OURS, System};

/// What a figure is divided by, first of all.
const FLOOR: &str = "floor";
/// Of the exact repeat on Kafka Streams, which the default profile is measured against.
const STREAMS: &str = "streams-4.1.0-rocksdb";
const BEGIN: &str = "<!-- Made by `bash tests/bench/run.sh race`. Do not edit. -->";
const END: &str = "<!-- End of what is made. -->";
/// Characters of a line.
const WIDTH: usize = 105;

/// The lines of a race as it was kept.
pub(crate) fn kept(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A day of the calendar, of Unix milliseconds.
pub(crate) fn date(ms: i64) -> String {
    loopwarden::event::EventTime(ms).to_rfc3339().chars().take(10).collect()
}

/// The systems of a race in the order of its first round.
fn systems(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter(|line| line["round"] == 1).filter_map(|line| line["system"].as_str()).collect()
}

/// CPU per event of a system, by round.
fn figures(lines: &[Value], system: &str) -> BTreeMap<u64, f64> {
    let of = lines.iter().filter(|line| line["system"] == system);
    of.filter_map(|line| Some((line["round"].as_u64()?, line["cpu_us_per_event"].as_f64()?))).collect()
}

/// The figures of a system, of all rounds.
fn spread(lines: &[Value], system: &str) -> Spread {
    Spread::of(figures(lines, system).into_values().collect())
}

/// One over the other, within each round. Nothing where one of them did not race.
fn ratio(lines: &[Value], over: &str, under: &str) -> Option<Spread> {
    let under = figures(lines, under);
    let ratios: Vec<f64> = figures(lines, over).iter().filter_map(|(round, figure)| Some(figure / under.get(round)?)).collect();
    (!ratios.is_empty()).then(|| Spread::of(ratios))
}

/// One JSON line for each system: its CPU per event, and the ratios. Each is the least, the median and the greatest of the rounds.
pub(crate) fn summary(lines: &[Value]) -> Vec<Value> {
    let all = systems(lines).into_iter().map(|system| {
        let three = |Spread { least, median, most }: Spread| json!([least, median, most].map(rounded));
        let over = |under: &str| ratio(lines, system, under).map(three);
        json!({"system": system, "over_floor": over(FLOOR), "over_hackeurope": over(OURS), "over_streams": over(STREAMS),
               "cpu_us_per_event": three(spread(lines, system))})
    });
    all.collect()
}

/// The part of the page: what was measured where, and a table.
fn part(lines: &[Value]) -> String {
    let machine = lines.iter().find(|line| line["cores"].is_number()).expect("the line of the machine");
    let text = |field: &str| machine[field].as_str().unwrap_or("unknown").to_owned();
    let number = |field: &str| machine[field].as_u64().unwrap_or(0);
    let rounds = number("rounds") as usize;
    let where_and_when = format!(
        "{} on {}, {} cores, {} GiB, kernel {}; load before: {}. {rounds} rounds in turn over {} events, the last two fifths \
         measured. One lane or thread, exactly once, a transaction each 100 ms, {} partitions, the broker beside it. Java: {}.",
        text("date"),
        text("processor"),
        number("cores"),
        number("memory_gib"),
        text("kernel"),
        text("load_before"),
        grouped(number("events")),
        number("partitions"),
        text("java").replace('"', ""),
    );
    let certainty = format!(
        "Each figure is the median, with the least and the greatest round; the true median lies between them with {:.0} % \
         certainty. Ratios are taken within a round.",
        Spread::certainty_percent(rounds)
    );
    let mut table = format!("| system | ÷ floor | µs of CPU per event | ÷ `{OURS}` |\n|---|---|---|---|\n");
    let mut rows: Vec<(&str, Spread)> = systems(lines).into_iter().map(|system| (system, spread(lines, system))).collect();
    rows.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    for (system, figure) in rows {
        let over = |under: &str| match ratio(lines, system, under) {
            Some(_) if system == under => "1".to_owned(),
            found => found.map_or_else(|| "–".to_owned(), |ratio| ratio.to_string()),
        };
        table += &format!("| {} | {} | {figure} | {} |\n", System::of(system).title(), over(FLOOR), over(OURS));
    }
    let streams = ratio(lines, "default", STREAMS);
    let default = streams.map(|ratio| format!("\n`default` ÷ {}: {ratio}.\n", System::of(STREAMS).title())).unwrap_or_default();
    format!("{BEGIN}\n{}\n\n{table}{default}\n{}\n{END}", wrapped(&where_and_when), wrapped(&certainty))
}

/// With commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

fn wrapped(text: &str) -> String {
    let (mut out, mut width) = (String::new(), 0);
    for word in text.split_whitespace() {
        if width > 0 && width + 1 + word.chars().count() > WIDTH {
            (out, width) = (out + "\n", 0);
        } else if width > 0 {
            (out, width) = (out + " ", width + 1);
        }
        out += word;
        width += word.chars().count();
    }
    out
}

/// Puts the part into the page, in the place of the one before.
pub(crate) fn write(lines: &[Value]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docs/performance.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page says where the part begins");
    let (_, after) = rest.split_once(END).expect("the page says where the part ends");
    std::fs::write(&file, format!("{before}{}{after}", part(lines))).unwrap();
    println!("{}", json!({"written": file}));
}
