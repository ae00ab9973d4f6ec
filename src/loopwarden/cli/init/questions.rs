//! The questions of `init`, over any reader and writer.

use std::io::{self, BufRead, Read as _, Write};

use loopwarden_settings::ProcessMode;

use crate::cli::init::args::{NONE, On};
use crate::{exit_code, failure::Failure};

/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: u64 = 1_024;
/// How often a question is put before it is given up.
const TRIES: usize = 3;

/// Who is asked.
pub(super) struct Questions<R, W> {
    pub(super) input: R,
    pub(super) output: W,
}

impl<R: BufRead, W: Write> Questions<R, W> {
    /// Where events come from.
    ///
    /// # Errors
    /// No answer that can be understood, as of all questions.
    pub(super) fn on(&mut self) -> Result<On, Failure> {
        self.put(
            "Where do events come from?\n  1  laptop  the coding agents of this machine; no Kafka\n  2  kafka   a topic of a fleet",
            "laptop",
            |answer| match answer {
                "1" | "laptop" => Ok(On::Laptop),
                "2" | "kafka" => Ok(On::Kafka),
                _ => Err("1, 2, laptop or kafka".to_owned()),
            },
        )
    }

    /// The brokers.
    pub(super) fn bootstrap(&mut self) -> Result<String, Failure> {
        self.put("Which brokers? (HOST:PORT, separated by commas)", "localhost:9092", |answer| Ok(answer.to_owned()))
    }

    /// Which agents, those that are here first.
    pub(super) fn agents(&mut self, all: &[&str], found: &[&str]) -> Result<Vec<String>, Failure> {
        let rest = all.iter().filter(|agent| !found.contains(agent));
        let offered: Vec<&str> = found.iter().chain(rest).copied().collect();
        let line = |(at, agent): (usize, &&str)| {
            let here = if found.contains(agent) { "  (found on this machine)" } else { "" };
            format!("\n  {:<2} {agent}{here}", at + 1)
        };
        let list: String = offered.iter().enumerate().map(line).collect();
        let default = if found.is_empty() { NONE.to_owned() } else { found.join(" ") };
        let question = format!("Which agents are to ask before and after each call? (numbers or names, or {NONE}){list}");
        self.put(&question, &default, |answer| {
            let words = answer.split([',', ' ']).filter(|word| !word.is_empty() && *word != NONE);
            let named = |word: &str| {
                let by_number = word.parse::<usize>().ok().and_then(|number| offered.get(number.checked_sub(1)?));
                let agent = by_number.or_else(|| offered.iter().find(|agent| **agent == word));
                agent.map(|agent| (*agent).to_owned()).ok_or_else(|| format!("numbers up to {}, or names", offered.len()))
            };
            words.map(named).collect()
        })
    }

    /// What commands are for.
    pub(super) fn mode(&mut self) -> Result<ProcessMode, Failure> {
        self.put(
            "In which mode?\n  1  shadow  judge, and tell agents nothing: look first\n  2  live    nudge and block",
            "shadow",
            |answer| match answer {
                "1" | "shadow" => Ok(ProcessMode::Shadow),
                "2" | "live" => Ok(ProcessMode::Live),
                _ => Err("1, 2, shadow or live".to_owned()),
            },
        )
    }

    /// Whether what was shown is to be done.
    pub(super) fn is_right(&mut self) -> Result<bool, Failure> {
        self.put("Do this?", "no", |answer| match answer {
            "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err("yes or no".to_owned()),
        })
    }

    fn put<T>(&mut self, question: &str, default: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
        for _ in 0..TRIES {
            write!(self.output, "{question}\n[{default}] > ").and_then(|()| self.output.flush())?;
            let Some(answer) = self.answer()? else { break };
            let answer = answer.trim().to_ascii_lowercase();
            match read(if answer.is_empty() { default } else { &answer }) {
                Ok(read) => {
                    writeln!(self.output)?;
                    return Ok(read);
                }
                Err(expected) => writeln!(self.output, "an answer is {expected}\n")?,
            }
        }
        let asked = question.lines().next().unwrap_or_default();
        Err(Failure::new(exit_code::USAGE, format!("error: no answer to {asked:?}; nothing was written")))
    }

    /// A line; none at the end of the input. What is beyond the bound is no answer to the next question either: it ends the input.
    fn answer(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        self.input.by_ref().take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line)?;
        let is_whole = !line.is_empty() && (line.len() as u64) < ANSWER_BYTES_MAX;
        Ok(is_whole.then(|| String::from_utf8_lossy(&line).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    const ALL: [&str; 3] = ["claude-code", "codex", "cline"];

    fn asked<T>(answers: &str, ask: impl FnOnce(&mut Questions<Cursor<Vec<u8>>, Vec<u8>>) -> T) -> (T, String) {
        let mut questions = Questions { input: Cursor::new(answers.as_bytes().to_vec()), output: Vec::new() };
        let told = ask(&mut questions);
        (told, String::from_utf8(questions.output).unwrap())
    }

    #[test]
    fn an_empty_answer_is_the_default_and_agents_that_are_here_come_first() {
        assert_eq!(asked("\n", Questions::on).0, Ok(On::Laptop));
        assert_eq!(asked("\n", Questions::mode).0, Ok(ProcessMode::Shadow));
        assert_eq!(asked("\n", Questions::is_right).0, Ok(false), "nothing is done by a key that was pressed once more");
        let (agents, said) = asked("\n", |asked| asked.agents(&ALL, &["codex"]));
        assert_eq!(agents, Ok(vec!["codex".to_owned()]));
        assert!(said.contains("\n  1  codex  (found on this machine)\n  2  claude-code\n  3  cline\n[codex] > "), "{said}");
        assert_eq!(asked("\n", |asked| asked.agents(&ALL, &[])).0, Ok(Vec::new()));
    }

    #[test]
    fn answers_are_numbers_or_words() {
        let agents = |answer: &str| asked(answer, |asked| asked.agents(&ALL, &["codex"])).0.unwrap();
        assert_eq!(agents("2, cline\n"), ["claude-code", "cline"]);
        assert!(agents("none\n").is_empty());
        assert_eq!(asked(" KAFKA \n", Questions::on).0, Ok(On::Kafka));
        assert_eq!(asked("2\n", Questions::mode).0, Ok(ProcessMode::Live));
    }

    #[test]
    fn what_is_not_understood_is_asked_again_and_given_up_after_three_times() {
        let (mode, said) = asked("loud\n\n", Questions::mode);
        assert!(mode == Ok(ProcessMode::Shadow) && said.contains("an answer is 1, 2, shadow or live"), "{said}");
        for answers in ["a\nb\nc\n2\n", "", &"x".repeat(5_000)] {
            let failure = asked(answers, Questions::mode).0.unwrap_err();
            assert_eq!(failure.exit, exit_code::USAGE, "{answers}");
            assert!(failure.message.unwrap().contains("no answer to \"In which mode?\""));
        }
        assert!(asked("0\n9\nx\n", |asked| asked.agents(&ALL, &[])).0.is_err());
    }
}
