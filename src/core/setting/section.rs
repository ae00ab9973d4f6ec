//! What is known of a setting and of a table, and the text of a policy file that comes from it.

/// A setting as it is documented.
#[derive(Clone, Copy)]
pub struct Setting {
    pub key: &'static str,
    /// Its value in the default policy, as TOML; empty where the file of that policy alone has it, and the text.
    pub default: &'static str,
    /// What it means, with its unit.
    pub text: &'static str,
    /// What it may be, for people to read.
    pub range: fn() -> String,
    /// Whether an entry of a list of tables has the default where it leaves the key out.
    pub is_filled: fn() -> bool,
}

/// A table of a policy file, or a list of such tables.
#[derive(Clone, Copy)]
pub struct Section {
    /// Dotted path of the table, as `prices.model`.
    pub path: &'static str,
    /// Whether there may be any number of them: `[[path]]`.
    pub is_list: bool,
    /// What it is for; may have several lines.
    pub about: &'static str,
    pub settings: &'static [Setting],
}

impl Section {
    /// A table, in whose file values and texts stand.
    pub(crate) const fn of_file(path: &'static str, settings: &'static [Setting]) -> Self {
        Self { path, is_list: false, about: "", settings }
    }

    /// It with the default values as TOML, each setting with its text.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let head = if self.is_list { format!("[[{}]]", self.path) } else { format!("[{}]", self.path) };
        section_toml(&head, self.about, self.settings)
    }
}

/// Values that are longer have their text above them.
const VALUE_CHARS: usize = 80;
/// Where a text behind a value begins.
const TEXT_COLUMN: usize = 27;

/// The same of a table under any head.
pub(crate) fn section_toml(head: &str, about: &str, settings: &[Setting]) -> String {
    let mut lines: Vec<String> = about.lines().map(|line| format!("# {line}")).collect();
    lines.push(head.to_owned());
    for Setting { key, default, text, .. } in settings {
        let line = format!("{key} = {default}");
        if text.is_empty() {
            lines.push(line);
        } else if default.contains('\n') || default.len() > VALUE_CHARS {
            lines.extend([format!("# {text}"), line]);
        } else {
            lines.push(format!("{line:<width$}# {text}", width = TEXT_COLUMN.max(line.len() + 1)));
        }
    }
    lines.join("\n") + "\n"
}
