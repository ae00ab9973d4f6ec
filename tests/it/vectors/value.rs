//! JSON values that are hard to write in one way only, and ways to write them.

use crate::random::Random;

/// A value as its source has it: numbers keep their text, and keys may come twice.
#[derive(Debug, Clone)]
pub(super) enum Json {
    Word(&'static str),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

pub(super) const TOOLS: [&str; 5] = ["Bash", "read_file", "größe", "mcp__fs__write", "\u{1f600}"];

/// Names of arguments: some of them sort by UTF-16 code units otherwise than by code points, or mean something to a language.
pub(super) const NAMES: [&str; 20] = [
    "path",
    "query",
    "command",
    "limit",
    "a",
    "b",
    "aa",
    "A",
    "é",
    "e\u{301}",
    "\u{1f600}",
    "\u{ff61}",
    "\u{e000}",
    "",
    "k\"\\\n",
    "10",
    "9",
    "__proto__",
    "constructor",
    "toJSON",
];

const PIECES: [&str; 26] = [
    "a",
    "Z",
    " ",
    "é",
    "e\u{301}",
    "\u{1f600}",
    "\u{10ffff}",
    "\u{ffff}",
    "\u{fffd}",
    "\u{feff}",
    "\u{2028}",
    "\u{2029}",
    "\u{7f}",
    "\u{80}",
    "\0",
    "\u{1f}",
    "\u{8}",
    "\u{c}",
    "\n",
    "\r",
    "\t",
    "\"",
    "\\",
    "/",
    "\\ud800",
    "</script>",
];

const NUMBERS: [&str; 44] = [
    "0",
    "-0",
    "-0.0",
    "0e5",
    "-0E-9",
    "1",
    "-1",
    "1.0",
    "1e0",
    "10e-1",
    "100",
    "1e2",
    "1E+2",
    "1.50",
    "-12.25",
    "0.1",
    "4.35",
    "1e21",
    "1e20",
    "1e-6",
    "0.000001",
    "1e-7",
    "0.0000001",
    "2.5e-7",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "9007199254740993.0",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "5e-324",
    "2e-324",
    "1e-400",
    "1.7976931348623157e308",
    "1.7976931348623159e308",
    "1e400",
    "-1.5E400",
    "333333333.33333329",
    "908998193700661.25",
    "123456789.123e15",
    "99999999999999999999.5",
];

/// A text.
fn string(random: &mut Random) -> String {
    (0..random.below(5)).map(|_| *random.pick(&PIECES.each_ref())).collect()
}

fn digits(random: &mut Random, most: usize) -> String {
    (0..1 + random.below(most)).map(|_| char::from(b'0' + random.below(10) as u8)).collect()
}

fn number(random: &mut Random) -> String {
    match random.below(4) {
        0 | 1 => (*random.pick(&NUMBERS.each_ref())).to_owned(),
        2 => {
            // A double by its bits: the shortest digits of any of them.
            let value = f64::from_bits(random.next());
            if value.is_finite() { format!("{value:e}") } else { "0.5".to_owned() }
        }
        _ => {
            let whole = digits(random, 24);
            let whole = whole.trim_start_matches('0');
            let sign = ["", "-"][random.below(2)];
            let fraction = if random.below(2) == 0 { format!(".{}", digits(random, 20)) } else { String::new() };
            let power = match random.below(3) {
                0 => format!("{}{}{}", ["e", "E"][random.below(2)], ["", "+", "-"][random.below(3)], random.below(330)),
                _ => String::new(),
            };
            format!("{sign}{}{fraction}{power}", if whole.is_empty() { "0" } else { whole })
        }
    }
}

/// Arguments. Null is none of them: in an event it says that there are none.
pub(super) fn arguments(random: &mut Random) -> Json {
    match value(random, 0) {
        Json::Word("null") => Json::Object(Vec::new()),
        value => value,
    }
}

/// Any value.
fn value(random: &mut Random, depth: usize) -> Json {
    match random.below(if depth < 4 { 9 } else { 4 }) {
        0 => Json::Word(["null", "true", "false"][random.below(3)]),
        1 => Json::Text(string(random)),
        2 | 3 => Json::Number(number(random)),
        4 | 5 => Json::List((0..random.below(4)).map(|_| value(random, depth + 1)).collect()),
        6 if random.below(40) == 0 => {
            // As deep as an event may have it.
            let levels = 40 + random.below(18);
            (0..levels).fold(Json::Number(number(random)), |inner, level| match level % 2 {
                0 => Json::List(vec![inner]),
                _ => Json::Object(vec![("d".to_owned(), inner)]),
            })
        }
        _ => object(random, depth),
    }
}

/// An object. Its keys may come twice, and then the last one counts.
pub(super) fn object(random: &mut Random, depth: usize) -> Json {
    let mut members: Vec<(String, Json)> = Vec::new();
    for _ in 0..random.below(5) {
        let name = match random.below(6) {
            0 => string(random),
            1 if !members.is_empty() => members[random.below(members.len())].0.clone(),
            _ => NAMES[random.below(NAMES.len())].to_owned(),
        };
        members.push((name, value(random, depth + 1)));
    }
    Json::Object(members)
}

/// The value in some spelling.
pub(super) fn written(value: &Json, random: &mut Random) -> String {
    let mut out = String::new();
    write(value, random, &mut out);
    out
}

fn write(value: &Json, random: &mut Random, out: &mut String) {
    match value {
        Json::Word(word) => out.push_str(word),
        Json::Number(source) => out.push_str(&respelled(source, random)),
        Json::Text(text) => quote(text, random, out),
        Json::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                space(random, out);
                write(item, random, out);
                space(random, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (at, (name, member)) in shuffled(members, random).into_iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                space(random, out);
                quote(name, random, out);
                space(random, out);
                out.push(':');
                space(random, out);
                write(member, random, out);
                space(random, out);
            }
            out.push('}');
        }
    }
}

/// The members in another order. Those of one name stay in theirs, for the last one counts.
fn shuffled<'a>(members: &'a [(String, Json)], random: &mut Random) -> Vec<&'a (String, Json)> {
    let is_double = |at: usize| members.iter().filter(|(name, _)| *name == members[at].0).count() > 1;
    let mut order: Vec<&(String, Json)> = members.iter().collect();
    if !(0..members.len()).any(is_double) {
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at + 1));
        }
    }
    order
}

/// Small integers have many spellings; every other number keeps its own.
fn respelled(source: &str, random: &mut Random) -> String {
    let is_small = source.len() < 15 && source.bytes().all(|byte| byte.is_ascii_digit());
    if !is_small {
        return source.to_owned();
    }
    let ends = ["", "", ".0", "e0", "E+00", ".000e-0"];
    format!("{source}{}", ends[random.below(ends.len())])
}

fn space(random: &mut Random, out: &mut String) {
    out.push_str(["", "", "", " ", "\n\t", "\r\n"][random.below(6)]);
}

fn quote(text: &str, random: &mut Random, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        let is_free = character >= ' ' && character != '"' && character != '\\';
        let short = match character {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            _ => None,
        };
        match (random.below(4), short) {
            (1.., _) if is_free => out.push(character),
            (1.., Some(short)) => out.push_str(short),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let hex = format!("{unit:04x}");
                    out.push_str("\\u");
                    out.push_str(&if random.below(2) == 0 { hex.to_uppercase() } else { hex });
                }
            }
        }
    }
    out.push('"');
}

/// Texts around the depth at which JSON stays text.
pub(super) fn deep_texts() -> Vec<String> {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"a\": ".repeat(depth), "}".repeat(depth));
    [1, 63, 64, 65, 66, 200, 5_000].into_iter().flat_map(|depth| [nested(depth), objects(depth)]).collect()
}

/// Texts that are JSON, or nearly.
pub(super) fn odd_texts() -> Vec<String> {
    let texts = [
        "",
        " ",
        "ls -la",
        "null",
        "true",
        " true ",
        "True",
        "nul",
        "12",
        " 12 ",
        "1.0",
        "-0",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "1_000",
        "0x10",
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "\"inner\"",
        "\"a\" b",
        "'a'",
        "{}",
        "{ }",
        "[]",
        "[1,]",
        "[,1]",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":}",
        "{\"a\":",
        "{\"a\":1 \"b\":2}",
        "[1 2]",
        "[1][2]",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1}//",
        "/**/{}",
        "[\"\\ud800\"]",
        "[\"\\udc00\\ud800\"]",
        "[\"\\ud83d\\ude00\"]",
        "{\"\\ud800\":1}",
        "\"\\ud83d\"",
        "[\"\\ud83d\\u0041\"]",
        "[\"\\x41\"]",
        "[\"\\u12\"]",
        "[\"\\u００４１\"]",
        "[\"a\tb\"]",
        "[\"\u{7f}\"]",
        "[\"\u{1}\"]",
        "\u{feff}{}",
        "{}\u{feff}",
        "\u{a0}{}",
        "\u{c}{}",
        "\u{b}1",
        "\u{2003}[]",
        "1\u{2028}",
        "{}\0",
        "\0",
        "[1e400,-1E400]",
        "1e400",
        "1e-400",
        "-1e-400",
        "٣",
        "[１]",
        "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
        "{\"__proto__\":{\"a\":1}}",
        "{\"toJSON\":1}",
        "{\"\u{ff61}\":1,\"\u{1f600}\":2,\"\u{e000}\":3}",
        "9007199254740993",
        "[9007199254740993.0]",
        "{\"10\":1,\"9\":2,\"1\":3}",
        "\u{1f600}",
        "e\u{301}",
    ];
    texts.iter().map(ToString::to_string).collect()
}
