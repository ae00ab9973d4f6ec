//! The schemas of answers against the structs that are written and read: `operate/api.rs` is read as text, so that a field there and none in the
//! page, one in the page and none there, and another type of either are found without a value of each.

use std::collections::{BTreeMap, BTreeSet};
use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{page, resolved};

/// A field as its line has it.
struct Field {
    name: String,
    kind: String,
    is_flat: bool,
    may_be_left_out: bool,
}

/// A struct, and the route that answers it, where its text begins with one.
#[derive(Default)]
struct Described {
    route: Option<(String, String)>,
    fields: Vec<Field>,
}

type Structs = BTreeMap<String, Described>;

/// A route as a text begins with it, between accents.
fn route_of(text: &str) -> Option<(String, String)> {
    let (method, path) = text.strip_prefix('`')?.split('`').next()?.split_once(" /")?;
    Some((method.to_lowercase(), format!("/{path}")))
}

fn structs() -> Structs {
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/loopwarden/operate/api.rs")).unwrap();
    let body = source.split_once("\nanswers! {\n").unwrap().1.split_once("\n}\n").unwrap().0;
    let (mut found, mut name) = (Structs::new(), String::new());
    let (mut route, mut attributes) = (None, String::new());
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            route = route.or_else(|| route_of(text));
        } else if line.starts_with("#[") {
            attributes.push_str(line);
        } else if let Some(begun) = line.strip_prefix("pub struct ") {
            name = begun.trim_end_matches(" {").to_owned();
            found.insert(name.clone(), Described { route: route.take(), fields: Vec::new() });
        } else if let Some((field, kind)) = line.strip_prefix("pub ").and_then(|line| line.strip_suffix(',')?.split_once(": ")) {
            let field = Field {
                name: field.to_owned(),
                kind: kind.to_owned(),
                is_flat: attributes.contains("flatten"),
                may_be_left_out: attributes.contains("skip_serializing_if"),
            };
            found.get_mut(&name).unwrap().fields.push(field);
            attributes.clear();
        }
    }
    found
}

/// What stands in `outer<…>`.
fn within<'a>(kind: &'a str, outer: &str) -> Option<&'a str> {
    kind.strip_prefix(outer)?.strip_prefix('<')?.strip_suffix('>')
}

/// A schema without its null; none where it has none.
fn not_null(schema: &Value) -> Option<Value> {
    let is_null = |kind: &Value| kind == "null" || kind["type"] == "null";
    let mut left = schema.clone();
    let field = if schema["oneOf"].is_array() { "oneOf" } else { "type" };
    let choices = left[field].as_array_mut()?;
    let before = choices.len();
    choices.retain(|choice| !is_null(choice));
    let is_nullable = choices.len() + 1 == before;
    let [one] = choices.as_slice() else { return None };
    let one = one.clone();
    if field == "oneOf" {
        left = one;
    } else {
        left["type"] = one;
    }
    is_nullable.then_some(left)
}

struct Comparison<'a> {
    page: &'a Value,
    structs: &'a Structs,
    /// Structs that were come by.
    seen: BTreeSet<String>,
    differences: Vec<String>,
}

impl Comparison<'_> {
    /// Compares what is written of a type with its schema.
    fn compare(&mut self, kind: &str, schema: &Value, at: &str) {
        let whole = resolved(self.page, schema).clone();
        let is = |word: &str| whole["type"] == word;
        let words = |all: &Value| all.as_array().is_some_and(|all| all.iter().all(Value::is_string));
        let fits = match kind {
            "Value" => true,
            "String" => is("string") || words(&whole["enum"]) || whole["const"].is_string(),
            "bool" => is("boolean"),
            "f64" => is("number"),
            "u8" | "u32" | "u64" | "usize" => is("integer") && whole["minimum"] == json!(0),
            "i64" => is("integer") && whole["minimum"].is_null(),
            _ => {
                if let Some(inner) = within(kind, "Option") {
                    match not_null(schema) {
                        Some(schema) => self.compare(inner, &schema, at),
                        None => self.differences.push(format!("{at} is never null")),
                    }
                } else if let Some(inner) = within(kind, "Vec").filter(|_| is("array")) {
                    self.compare(inner, &whole["items"], &format!("{at}[]"));
                } else if let Some(inner) = within(kind, "BTreeMap").filter(|_| is("object")) {
                    self.compare(inner.trim_start_matches("String, "), &whole["additionalProperties"], &format!("{at}{{}}"));
                } else if self.structs.contains_key(kind) && is("object") {
                    self.object(kind, &whole, at);
                } else {
                    self.differences.push(format!("{at} is a {kind}"));
                }
                return;
            }
        };
        if !fits {
            self.differences.push(format!("{at} is a {kind}"));
        }
    }

    fn object(&mut self, name: &str, schema: &Value, at: &str) {
        let mut written = Vec::new();
        let has_others = self.fields(name, true, &mut written);
        let named = |names: Option<&Vec<Value>>| -> BTreeSet<String> {
            names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let known: BTreeSet<String> = written.iter().map(|(name, ..)| name.clone()).collect();
        let surely: BTreeSet<String> = written.iter().filter(|field| field.2).map(|(name, ..)| name.clone()).collect();
        let properties = schema["properties"].as_object().unwrap();
        let listed: BTreeSet<String> = properties.keys().cloned().collect();
        let required = named(schema["required"].as_array());
        self.differences.extend(known.difference(&listed).map(|name| format!("{at}/{name} is no property")));
        self.differences.extend(surely.symmetric_difference(&required).map(|name| format!("{at}/{name} is required, or is not")));
        for name in listed.difference(&known) {
            let is_one = has_others && resolved(self.page, &properties[name])["type"] == "string";
            self.differences.extend((!is_one).then(|| format!("{at}/{name} is never written")));
        }
        for (name, kind, _) in written {
            if let Some(schema) = properties.get(&name) {
                self.compare(&kind, schema, &format!("{at}/{name}"));
            }
        }
    }

    /// Fields of a struct as they are written: name, type, whether it is always there. Whether others may stand beside them.
    fn fields(&mut self, name: &str, is_there: bool, into: &mut Vec<(String, String, bool)>) -> bool {
        self.seen.insert(name.to_owned());
        let structs = self.structs;
        let mut has_others = false;
        for Field { name, kind, is_flat, may_be_left_out } in &structs[name].fields {
            match (is_flat, within(kind, "Option")) {
                (true, _) if kind == "BTreeMap<String, String>" => has_others = true,
                (true, inner) => has_others |= self.fields(inner.unwrap_or(kind), is_there && inner.is_none(), into),
                (false, inner) => {
                    let kind = inner.filter(|_| *may_be_left_out).unwrap_or(kind);
                    into.push((name.clone(), kind.to_owned(), is_there && !may_be_left_out));
                }
            }
        }
        has_others
    }
}

/// Schemas of what an operation answers as JSON where all went well.
fn answered(page: &Value, (method, path): &(String, String)) -> Vec<Value> {
    let responses = page["paths"][path][method]["responses"].as_object();
    let well = responses.into_iter().flatten().filter(|(code, _)| code.starts_with('2'));
    well.map(|(_, response)| response["content"]["application/json"]["schema"].clone())
        .filter(|schema| !schema.is_null())
        .collect()
}

#[test]
fn each_answer_of_the_page_is_the_struct_that_is_written() {
    let (page, structs) = (page(), structs());
    let mut seen = BTreeSet::new();
    for (name, described) in structs.iter().filter(|(_, described)| described.route.is_some()) {
        let route = described.route.as_ref().unwrap();
        let tries = answered(&page, route).into_iter().map(|schema| {
            let mut comparison = Comparison { page: &page, structs: &structs, seen: BTreeSet::new(), differences: Vec::new() };
            comparison.compare(name, &schema, name);
            (comparison.differences, comparison.seen)
        });
        // A route may have an answer of each of two structs.
        let nearest = tries.min_by_key(|(differences, _)| differences.len());
        let (differences, of_it) = nearest.unwrap_or_else(|| panic!("{route:?} of {name} answers no JSON in the page"));
        assert_eq!(differences, Vec::<String>::new(), "{route:?}");
        seen.extend(of_it);
    }
    let unseen: Vec<&String> = structs.keys().filter(|name| !seen.contains(*name)).collect();
    assert!(unseen.is_empty() && structs.len() > 30, "answers of no route: {unseen:?}");
}
