//! What is known of a setting and of a table, and the text of a file that comes from it.

/// What may stand at a key, as far as a value there does not show it.
#[derive(Debug, Clone)]
pub enum Form {
    /// A value of the default's type.
    Value,
    /// A whole number between these two, both included.
    Range(i64, i64),
    /// One of these words; unless it is closed, the last one describes what else may stand there.
    Words { words: Vec<&'static str>, is_closed: bool },
    /// A path, in a file relative to that file.
    Path,
    /// A table of any keys; their values are text.
    Open,
    /// A table of these keys.
    Table(&'static [Setting]),
    /// Tables of these keys, as many as there are.
    Tables(&'static [Setting]),
}

/// A setting as it is documented.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub key: &'static str,
    /// Its value where nothing is written, as TOML, or else an example; empty where the file of the default policy alone has it, and of tables.
    pub default: &'static str,
    /// What it means, with its unit; `{words}` stands for those of its form.
    pub text: &'static str,
    /// What it may be, for people to read.
    pub range: fn() -> String,
    pub form: fn() -> Form,
    /// Whether it has the default where a table leaves it out.
    pub is_filled: fn() -> bool,
}

impl Setting {
    /// What it means, with its unit and the words that it may be.
    #[must_use]
    pub fn description(&self) -> String {
        match (self.form)() {
            Form::Words { words, .. } => self.text.replace("{words}", &words.join(" | ")),
            _ => self.text.to_owned(),
        }
    }
}

/// A table of a policy file, or a list of such tables.
#[derive(Debug, Clone, Copy)]
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
        section_toml(&head, self.about, self.settings, "")
    }
}

/// Values that are longer have their text above them.
const VALUE_CHARS: usize = 80;
/// Where a text behind a value begins.
const TEXT_COLUMN: usize = 27;

/// The same of a table under any head. What stands at an `example` begins with that mark.
#[must_use]
pub fn section_toml(head: &str, about: &str, settings: &[Setting], example: &str) -> String {
    let mut lines: Vec<String> = about.lines().map(|line| format!("# {line}")).collect();
    lines.extend((!head.is_empty()).then(|| head.to_owned()));
    for setting in settings.iter().filter(|setting| !setting.default.is_empty()) {
        let (mark, text) = (if (setting.is_filled)() { "" } else { example }, setting.description());
        let line = format!("{mark}{} = {}", setting.key, setting.default);
        if text.is_empty() {
            lines.push(line);
        } else if setting.default.contains('\n') || setting.default.len() > VALUE_CHARS {
            lines.extend([format!("# {text}"), line]);
        } else {
            lines.push(format!("{line:<width$}# {text}", width = TEXT_COLUMN.max(line.len() + 1)));
        }
    }
    lines.join("\n") + "\n"
}
