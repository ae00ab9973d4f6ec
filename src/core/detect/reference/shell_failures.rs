//! `shell_failures`: shell commands failing in a row (attocode's bash cascade). Page `detection`.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, steps::tally::Tally};
use crate::setting::{Key, Kind, MODE, Mode, count, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(1), "failures of a finding";
        file_tools: FileTools = r#"{ create = "write_file", edit = "edit_file", read = "read_file" }"#, FileToolNames,
            "tool names that the text recommends";
    }
}

/// Names of the tools that handle files, for the text.
#[derive(Debug, Clone, Default)]
pub struct FileTools {
    pub create: String,
    pub edit: String,
    pub read: String,
}

/// A table of three names.
struct FileToolNames;

impl Kind for FileToolNames {
    type Of = FileTools;

    fn read(&self, key: &mut Key<'_>) -> FileTools {
        let mut table = key.table();
        let mut name = |what: &str| {
            let mut key = table.key(what);
            let name = key.text();
            key.check.name(&key.path, name)
        };
        FileTools { create: name("create"), edit: name("edit"), read: name("read") }
    }

    fn range(&self) -> String {
        "names of tools".to_owned()
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Shell commands failing in a row.",
        rule: "`threshold` shell commands in a row fail. Calls of other tools neither count nor end the row. When \
            the last one wrote a file, the text names the file tools of `file_tools`.",
        example: "Three `sed` attempts on one file fail.",
        silent: &[
            "An outage, or a call without a known outcome, changes nothing.",
            "The producer sends failures without `outcome`, `error` or exit code \
                (`attocode/shell-silence-is-no-failure`).",
        ],
        looks_through: true,
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::ShellFailures, self.mode, self.threshold)
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let n = context.count();
        let text = if context.flags.contains(Flags::SHELL_FILE) {
            let FileTools { create, edit, read } = &self.file_tools;
            format!(
                "[System] {n} consecutive bash commands have failed, the last one on a file. Use the file tools: {create} to create, {edit} to \
                 modify, {read} to read."
            )
        } else {
            format!(
                "[System] {n} consecutive bash commands have failed. STOP and: 1. explain what you are trying to achieve; 2. use a DIFFERENT \
                 approach or tool; 3. send no bash command of the same pattern."
            )
        };
        CommandText::new(text, format!("{n} failing shell commands in a row"))
    }
}

/// Takes a completed step; only shell commands count.
pub fn observe(settings: &Settings, row: &mut Tally, step: &Step) -> Option<Finding> {
    if !step.flags.contains(Flags::SHELL) {
        return None;
    }
    if step.flags.contains(Flags::OK) {
        row.count = 0;
        return None;
    }
    row.extend(step.sequence);
    let finding = settings.counts().finding(*row, step.sequence, || loop_identity(Family::Shell, &[]))?;
    Some(finding.confident(0.5, 0.1))
}
