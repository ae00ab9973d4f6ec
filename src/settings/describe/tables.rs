//! Arrays of tables: settings of which there may be any number.

use crate::describe::entry::{Entry, Form, Reader, Setting, ValueRule};
use crate::layers::tree::{Node, Value};
use crate::{describe::reference, layers::tree};

/// Tables of one kind, `[[key]]` in a file. Each has its own defaults; no other layer than a file can hold them.
impl<T: Entry> Entry for Vec<T> {
    fn form() -> Form {
        match T::form() {
            Form::Table(settings) => Form::Tables(settings),
            other => other,
        }
    }

    fn read(reader: &mut Reader<'_>, path: &str, _: Option<&ValueRule>) -> Option<Self> {
        let found = tree::at(reader.tree, &path.split('.').collect::<Vec<_>>()).map(|node| &node.value);
        let Some(Value::Array(elements)) = found else { return Some(Self::new()) };
        let settings = if let Form::Table(settings) = T::form() { settings } else { Vec::new() };
        let defaults = reference::defaults_of(&settings);
        let mut values = Some(Self::new());
        for (index, element) in elements.iter().enumerate() {
            let Value::Table(written) = &element.value else { continue };
            let mut whole = defaults.clone();
            tree::merge(&mut whole, written.clone());
            let name = format!("{path}[{index}]");
            for Setting { key, .. } in settings.iter().filter(|of| of.is_required && !whole.contains_key(of.key)) {
                reader.bad(&name, format!("{name}.{key} is not set"));
            }
            // Under its own name it is read, under that of the array a problem finds its place.
            let node = Node { value: Value::Table(whole), key: element.key.clone(), origin: element.origin.clone() };
            let mut tree = reader.tree.clone();
            tree.insert(name.clone(), node);
            let value = T::read(&mut Reader { tree: &tree, problems: &mut *reader.problems }, &name, None);
            values = values.zip(value).map(|(mut values, value)| {
                values.push(value);
                values
            });
        }
        values
    }
}
