//! Sketches: what makes two of them alike, and what one walk tells.

use proptest::prelude::*;

use super::*;
use crate::event::Content;

/// The words of a call.
fn own_words(tool: &str, args: &str) -> Hashes {
    read_arguments(&Arguments::of(&Content::Raw(args)), &[], 9, 9, Some(tool)).own
}

fn of(text: &str) -> Sketch {
    sketch_text(text).0
}

#[test]
fn texts_that_differ_in_an_id_are_the_same_and_in_a_number_nearly() {
    let page = |n: u32, id: &str| format!("page {n} of the archive, request {id}, loaded with nine rows and a footer");
    assert_eq!(of(&page(3, "7f3a9c21")), of(&page(3, "1b2c")));
    let is_alike = |one: &str, two: &str, percent| of(one).view().is_alike(of(two).view(), percent);
    assert!(is_alike(&page(3, "a1"), &page(4, "a1"), 60));
    assert!(!is_alike(&page(3, "a1"), "nothing at all was found in this place today", 10));
    assert!(is_alike("", " ... ", 60) && !is_alike("", "a", 60));
}

#[test]
fn a_failure_is_what_is_left_without_the_call_and_what_it_quotes() {
    let template = |text: &str, args: &str| read_failure(text, 9, &own_words("get_user", args)).1;
    assert_eq!(
        template("user 4711 not found in table users", r#"{"id":4711}"#),
        template("user 12 not found in table users", r#"{"id":12}"#)
    );
    assert_eq!(template("must have property 'path'", "{}"), template("must have property 'content'", "{}"));
    assert_ne!(template("must have property 'path'", "{}"), template("must not have property 'path'", "{}"));
}

#[test]
fn arguments_are_their_values() {
    let sketch = |args| read_arguments(&Arguments::of(&Content::Raw(args)), &[], 9, 9, None).sketch;
    assert_eq!(sketch(r#"{"a":"x y","b":{"c":[1,true]}}"#), of("x y 1 true"));
    assert_eq!(sketch(r#"{"a":"x\ny \"z\" A"}"#), of("x y z A"));
    assert_eq!(sketch(r#""x y z""#), of("x y z"));
    let hashes = |args| read_arguments(&Arguments::of(&Content::Raw(args)), &[], 9, 9, None).hashes;
    assert_eq!(hashes(r#"{"a":1,"b":2}"#), hashes(r#"{"b":2,"a":1}"#));
    assert_ne!(hashes(r#"{"a":1}"#), hashes(r#"{"a":2}"#));
}

#[test]
fn a_walk_over_an_answer_tells_all_that_each_walk_would() {
    let text = "order 4711 of Ada is on its way, order 12 is not";
    let read = read_text(text, 4);
    assert_eq!((read.sketch, read.words), sketch_text(text));
    assert_eq!(read.named.as_slice(), ["order", "4711", "of", "Ada"].map(|word| read_text(word, 1).named[0]).as_slice());
    assert_eq!(read_text("of Ada, of ADA, of Eve", 4).named, read_text("of Ada", 4).named);
    assert_eq!(read.shape, read_text(&text.replace("4711", "9"), 4).shape);
    assert_ne!(read.shape, read_text(&text.replace("Ada", "Eve"), 4).shape);
}

#[test]
fn two_answers_of_which_only_hashes_are_known_differ_in_more_than_numbers() {
    assert_ne!(read_hash(&[1; 32]).shape, read_hash(&[2; 32]).shape);
    assert_ne!(read_hash(&[1; 32]).sketch, read_hash(&[2; 32]).sketch);
}

#[test]
fn a_number_that_says_which_part_is_meant_names_nothing() {
    let named = |args| read_arguments(&Arguments::of(&Content::Raw(args)), &["page".to_owned()], 9, 9, None).named;
    assert_eq!(*named(r#"{"page":7,"url":"ab"}"#), *read_text("ab", 9).named);
    assert_eq!(*named(r#"{"number":7,"url":"ab"}"#), *read_text("7 ab", 9).named);
}

#[test]
fn a_phrase_is_counted_where_it_comes_again() {
    assert_eq!(repeated_run(&"I will try it once more, then. ".repeat(6), 4), 6);
    assert_eq!(repeated_run("one two three four five six", 4), 1);
    assert_eq!(repeated_run("one two", 4), 0);
}

#[test]
fn sketches_are_the_same_on_every_machine() {
    assert_eq!(of("the quick brown fox").hashes(), [1_152_222_596, 2_927_781_095]);
}

proptest! {
    #[test]
    fn an_estimate_is_near_the_truth(shared in 0usize..200, left in 0usize..100, right in 0usize..100) {
        let text = |side: &str, own: usize| {
            let word = |n: usize| ["ka", "lo", "mi", "nu", "pe"].map(|part| part.repeat(n % 7 + 1))[n / 7 % 5].clone() + &"q".repeat(n / 35);
            (0..shared).map(|n| format!("{0} {0} {0} ; ", word(n))).chain((0..own).map(|n| format!("{0}{side} {0}{side} {0}{side} ", word(n)))).collect::<String>()
        };
        let (a, b) = (of(&text("l", left)), of(&text("r", right)));
        prop_assert!(a.hashes().len() <= SKETCH_HASHES && a.hashes().is_sorted());
        prop_assert_eq!(a.view().is_alike(b.view(), 50), b.view().is_alike(a.view(), 50));
        prop_assert!(a.view().is_alike(a.view(), 100));
    }

    #[test]
    fn the_smallest_hashes_are_kept(hashes in proptest::collection::vec(prop_oneof![0_u32..90, any::<u32>()], 0..400)) {
        let mut sketcher = Sketcher { words: 3, ..Sketcher::default() };
        for hash in &hashes {
            sketcher.keep(*hash);
        }
        prop_assert_eq!(sketcher.finish().0, Sketch::of_hashes(hashes));
    }

    #[test]
    fn a_failure_is_read_as_an_answer_and_its_template_without_quoted_names(text in text(), own in text()) {
        let own = own_words("t", &own);
        let mut template = Template { sketcher: Sketcher::default(), own: &own };
        words(&without_quoted(&text), Escapes::None, &mut template);
        prop_assert_eq!(read_failure(&text, 9, &own), (read_text(&text, 9), template.sketcher.finish().0), "{:?}", text);
    }

    #[test]
    fn the_words_of_a_call_are_those_of_its_text(value in json(), name in string()) {
        let object = format!("{{{name}:{value},\"b\":[{value},{{{name}:{value}}}]}}");
        for text in [object, format!("[{name}]")] {
            let args = Arguments::of(&Content::Raw(&text));
            let mut whole = OwnReader { words: Hashes::new(), is_asked: true };
            for text in ["tool", args.text()] {
                whole.read(text, Escapes::Json);
            }
            prop_assert_eq!(own_words("tool", &text), whole.ascending(), "{}", text);
        }
    }

    #[test]
    fn any_text_has_a_sketch(text in any::<String>(), own in any::<String>()) {
        let args = Arguments::of(&Content::Raw(&text));
        let _ = (read_json(&text, 9), read_arguments(&args, &[], 16, 9, None));
        let _ = read_failure(&text, 9, &own_words("t", &own));
    }
}

/// The words of a failure that are not those of its call, numbers or ids.
struct Template<'a> {
    sketcher: Sketcher,
    own: &'a [u32],
}

impl TakesWords for Template<'_> {
    fn take(&mut self, word: Word) {
        if word.digits == 0 && !self.own.contains(&small(word.hash)) {
            self.sketcher.add(word.hash);
        }
    }
}

/// A text with a space for each quoted name.
fn without_quoted(text: &str) -> String {
    let quoted = text.char_indices().filter(|(_, quote)| "'\"`".contains(*quote)).find_map(|(start, quote)| {
        let (before, inside) = (&text[..start], &text[start + 1..]);
        let length = inside.find(quote).filter(|length| (1..=QUOTED_BYTES_MAX).contains(length))?;
        (!inside[..length].contains('\n')).then(|| (before, &inside[length + 1..]))
    });
    quoted.map_or_else(|| text.to_owned(), |(before, after)| format!("{before} {}", without_quoted(after)))
}

/// Words and quotes, near each other and far apart.
fn text() -> impl Strategy<Value = String> {
    let pieces = ["a", "Zz", "_", "7", "12345678", "MixedCase", "größe", "\"", "'", "`", "'a b'", " ", " ", "\n", "/"];
    let piece = prop_oneof![
        9 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
        1 => (0_usize..90).prop_map(|bytes| "w".repeat(bytes)),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// The source of a JSON string.
fn string() -> impl Strategy<Value = String> {
    proptest::string::string_regex(r#""(\\[\\"nt/]|[a-c0-9 _é{\[:,]){0,9}""#).unwrap()
}

/// The source of a JSON value.
fn json() -> impl Strategy<Value = String> {
    prop_oneof![string(), "[1-9][0-9]{0,3}"].prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(|values| format!("[{}]", values.join(","))),
            proptest::collection::vec((string(), inner), 0..3).prop_map(|members| {
                let members: Vec<String> = members.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}
