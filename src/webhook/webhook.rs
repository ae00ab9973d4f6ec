//! The webhook: takes the next command, and sends it until the receiver has it or it need not be sent any more.
//!
//! There is one request at a time. So commands arrive in the order of the log, and what is not done holds up what lies behind it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{thread, time::Duration};

use loopwarden_core::{engine::Action, event::EventTime};
use loopwarden_log::clock::{Deadline, Stopwatch};
use loopwarden_log::{LogError, Output, clock};

use crate::answer::{Answer, HttpStatus};
use crate::cloud_event::{CloudEvent, Message};
use crate::{client::Client, report::WebhookReport, source::Source};

/// One wait for a command, or beside one that is held. Whoever wants the thread to end waits as long.
const TURN: Duration = Duration::from_millis(200);
/// Commands that are passed over before that is kept.
const PASSED_KEPT: u64 = 256;
/// The pause after the first failure.
const FIRST: Duration = Duration::from_millis(500);
/// Longest pause that is chosen here.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Longest pause that a receiver may ask for. A larger wish is cut, so that a mistake there is over soon after it is repaired.
const ASKED_MAX: Duration = Duration::from_secs(300);

/// Opens the source; again after each failure of it.
pub type Open = Box<dyn FnMut() -> Result<Box<dyn Source>, LogError> + Send>;

/// The command at the head of the line.
struct Head {
    message: Message,
    tries: u32,
    since: Stopwatch,
    next_try: Deadline,
}

/// Sends commands to one receiver.
pub struct Webhook {
    client: Client,
    open: Open,
    source: Option<Box<dyn Source>>,
    head: Option<Head>,
    /// Commands that were passed over since the last one that was kept.
    passed: u64,
    /// Failures of the source in a row.
    failures: u32,
    /// Lost before the source was opened last.
    lost_before: u64,
    report: Arc<Mutex<WebhookReport>>,
}

impl Webhook {
    /// Nothing happens before [`Webhook::run`].
    pub fn new(client: Client, open: Open, report: Arc<Mutex<WebhookReport>>) -> Self {
        Self { client, open, source: None, head: None, passed: 0, failures: 0, lost_before: 0, report }
    }

    /// Sends until told to stop, or until the receiver is gone. To be unparked when it is to stop.
    pub fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => self.begin_anew(&error, stop),
            }
        }
        if let Some(Err(error)) = self.source.as_mut().map(|source| source.keep()) {
            tracing::warn!(webhook = self.name(), %error, "some commands will be sent again");
        }
    }

    fn name(&self) -> &str {
        &self.client.settings().name
    }

    fn note(&self, note: impl FnOnce(&mut WebhookReport)) {
        note(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// One step. Whether there is another.
    fn turn(&mut self) -> Result<bool, LogError> {
        if self.source.is_none() {
            self.source = Some((self.open)()?);
            self.note(|report| report.is_up = true);
        }
        match self.head.take() {
            None => self.take().map(|()| true),
            Some(head) if head.next_try.is_over() => self.send(head),
            Some(head) => {
                let wait = head.next_try.left().min(TURN);
                let source = self.source()?;
                let is_ours = source.hold(wait)?;
                let behind = source.behind();
                self.note(|report| {
                    report.behind = behind;
                    report.waiting = report.waiting.filter(|_| is_ours);
                });
                self.head = Some(head).filter(|_| is_ours);
                Ok(true)
            }
        }
    }

    fn source(&mut self) -> Result<&mut dyn Source, LogError> {
        match &mut self.source {
            Some(source) => Ok(source.as_mut()),
            None => Err(LogError::Lost("the source is closed".to_owned())),
        }
    }

    /// Looks for the next command.
    fn take(&mut self) -> Result<(), LogError> {
        let lost_before = self.lost_before;
        let source = self.source()?;
        let output = source.next(TURN)?;
        let (lost, behind) = (lost_before + source.lost(), source.behind());
        self.failures = 0;
        self.note(|report| (report.stats.lost, report.behind) = (lost, behind));
        let Some(output) = output else {
            self.passed = 0;
            return self.source()?.keep();
        };
        match self.wanted(&output) {
            Ok(message) => {
                let since = Stopwatch::start();
                self.note(|report| report.waiting = Some(since));
                self.head = Some(Head { message, tries: 0, since, next_try: Deadline::after(Duration::ZERO) });
                Ok(())
            }
            Err(count) => {
                self.note(count);
                self.passed += 1;
                let is_due = self.passed >= PASSED_KEPT;
                self.source()?.done();
                if is_due { self.keep() } else { Ok(()) }
            }
        }
    }

    /// The request of a command that is to be sent, or what it counts as.
    fn wanted(&self, output: &Output) -> Result<Message, fn(&mut WebhookReport)> {
        let settings = self.client.settings();
        let Some((event, action)) = CloudEvent::of(output).and_then(|event| event.action().map(|action| (event, action))) else {
            tracing::warn!(webhook = settings.name, "a record among the commands is none, and is passed over");
            return Err(|report| report.stats.unreadable += 1);
        };
        let is_of_tenant = || settings.tenant.as_ref().is_none_or(|tenant| event.tenant() == *tenant);
        let takes = |action: &str| settings.actions.iter().any(|wanted| wanted == action);
        // Whoever is to hear of blocks is to hear where a person is asked for because no block may follow.
        if (takes(action) || (takes(Action::Block.as_str()) && event.asks_human())) && is_of_tenant() {
            Ok(self.client.message(&event, EventTime(clock::now_ms())))
        } else {
            Err(|report| report.stats.filtered += 1)
        }
    }

    /// Sends the head of the line once. Whether the webhook goes on.
    fn send(&mut self, mut head: Head) -> Result<bool, LogError> {
        let is_expired = head.message.expires.is_some_and(|expires| expires.0 <= clock::now_ms());
        if is_expired && self.client.settings().drops_expired {
            tracing::warn!(webhook = self.name(), id = head.message.id, "a command has expired before it was delivered");
            self.note(|report| report.stats.expired += 1);
            return self.over();
        }
        head.tries = head.tries.saturating_add(1);
        match self.client.post(&head.message) {
            Answer::Done(_) => {
                if head.tries > 1 {
                    let waited_s = head.since.elapsed().as_secs();
                    tracing::info!(
                        webhook = self.name(),
                        id = head.message.id,
                        tries = head.tries,
                        waited_s,
                        "delivered at last"
                    );
                }
                self.note(|report| report.stats.accepted += 1);
                self.over()
            }
            Answer::Refused(status) => {
                let (id, HttpStatus { code, text }) = (&head.message.id, status);
                tracing::warn!(webhook = self.name(), id, status = code, answer = text, "a command was refused, and is given up");
                self.note(|report| report.stats.refused += 1);
                self.over()
            }
            Answer::Gone(_) => {
                tracing::error!(webhook = self.name(), "the receiver is gone (410): nothing more is sent before a restart");
                self.note(|report| (report.is_up, report.waiting) = (false, None));
                Ok(false)
            }
            Answer::Again(said, asked) => {
                let wait = pause(head.tries, asked, fastrand::f64());
                self.tell(&head, &said, wait);
                self.note(|report| match said {
                    Ok(_) => report.stats.again += 1,
                    Err(_) => report.stats.unanswered += 1,
                });
                head.next_try = Deadline::after(wait);
                self.head = Some(head);
                Ok(true)
            }
        }
    }

    /// A line for the first failures, then for ever fewer: a receiver may be away for days.
    fn tell(&self, head: &Head, said: &Result<HttpStatus, String>, wait: Duration) {
        if !head.tries.is_power_of_two() {
            return;
        }
        let answer = said.as_ref().map_or_else(String::clone, ToString::to_string);
        let (id, tries, again_ms) = (&head.message.id, head.tries, wait.as_millis() as u64);
        tracing::warn!(webhook = self.name(), id, tries, again_ms, answer, "not delivered; those behind it wait");
    }

    /// The head of the line is done with.
    fn over(&mut self) -> Result<bool, LogError> {
        self.note(|report| report.waiting = None);
        self.source()?.done();
        self.keep().map(|()| true)
    }

    fn keep(&mut self) -> Result<(), LogError> {
        self.passed = 0;
        self.source()?.keep()
    }

    /// The source has failed: it is opened again after a pause, and goes on where it was last kept.
    fn begin_anew(&mut self, error: &LogError, stop: &AtomicBool) {
        self.lost_before += self.source.take().map_or(0, |source| source.lost());
        self.head = None;
        self.failures = self.failures.saturating_add(1);
        self.note(|report| (report.is_up, report.waiting) = (false, None));
        let wait = pause(self.failures, None, fastrand::f64());
        if !stop.load(Ordering::Acquire) {
            tracing::warn!(webhook = self.name(), %error, again_ms = wait.as_millis() as u64, "commands cannot be read");
        }
        let deadline = Deadline::after(wait);
        while !deadline.is_over() && !stop.load(Ordering::Acquire) {
            thread::park_timeout(deadline.left().min(TURN));
        }
    }
}

/// The pause after so many tries, which began at one: doubled each time, and between half and all of that, so that many senders do not
/// come at once. `share` is between 0 and 1; `asked` is what the receiver wants at least.
fn pause(tries: u32, asked: Option<Duration>, share: f64) -> Duration {
    let doubled = FIRST.saturating_mul(1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX)).min(PAUSE_MAX);
    let chosen = doubled / 2 + (doubled / 2).mul_f64(share.clamp(0.0, 1.0));
    asked.map_or(chosen, |asked| asked.min(ASKED_MAX).max(chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_lie_between_half_and_all() {
        let ms = |tries, share| pause(tries, None, share).as_millis();
        assert_eq!([ms(1, 0.0), ms(1, 1.0), ms(2, 1.0), ms(3, 1.0)], [250, 500, 1_000, 2_000]);
        for tries in [8, 32, 33, 34, u32::MAX] {
            assert_eq!([ms(tries, 0.0), ms(tries, 1.0)], [30_000, 60_000], "{tries}");
        }
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_pause_within_a_bound_and_not_for_a_shorter_one() {
        let asked = |s: u64| pause(1, Some(Duration::from_secs(s)), 1.0);
        assert_eq!([asked(7), asked(300)].map(|wait| wait.as_secs()), [7, 300]);
        assert_eq!(asked(u64::MAX), Duration::from_secs(300));
        assert_eq!(asked(0), FIRST);
    }
}
