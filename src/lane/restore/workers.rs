//! Who steps restores: threads of the process, or the lane itself where nothing waits (tests, simulation, worlds without a changelog).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{collections::VecDeque, thread, time::Duration};

use loopwarden_core::event::TaskId;
use loopwarden_log::Changelog;
use loopwarden_state::{StateStore, StoreError};

use crate::metrics::stats::{count, stage_at};
use crate::settings::{Clock, LaneSettings};
use crate::task::outcome::{Answer, RestoreError, RestoreStep, Restorer};
use crate::task::state::{Restoring, Task};
use crate::{restore::machine::Restore, task::poison::guarded};

/// Answers a lane may leave unread; more tasks than that no lane has.
const ANSWERS_MAX: usize = 65_536;
/// Longest sleep of an idle restore thread. Milliseconds.
const IDLE_MS: u64 = 1_000;

/// Steps restores when it is polled, one step of each at a time.
pub struct InlineRestorer {
    store: Box<dyn StateStore>,
    changelog: Option<Box<dyn Changelog>>,
    settings: Arc<LaneSettings>,
    jobs: VecDeque<(u64, u64, Restore)>,
}

impl InlineRestorer {
    /// Restores into `store` from `changelog`; without one, the store's Position is all there is.
    pub fn new(store: impl StateStore + 'static, changelog: Option<Box<dyn Changelog>>, settings: Arc<LaneSettings>) -> Self {
        Self { store: Box::new(store), changelog, settings, jobs: VecDeque::new() }
    }
}

impl Restorer for InlineRestorer {
    fn submit(&mut self, task: Task<Restoring>, attempt: u64) {
        self.jobs.push_back((attempt, 0, Restore::new(task, self.store.handle(), Arc::clone(&self.settings))));
    }

    fn cancel(&mut self, id: TaskId) {
        self.jobs.retain(|(_, _, job)| job.id() != id);
    }

    fn poll(&mut self, clock: &dyn Clock) -> Option<Answer> {
        for _ in 0..self.jobs.len() {
            let (attempt, not_before_ms, mut job) = self.jobs.pop_front()?;
            if clock.mono_ms() < not_before_ms {
                self.jobs.push_back((attempt, not_before_ms, job));
                continue;
            }
            let changelog = self.changelog.as_mut().map(|changelog| &mut **changelog as &mut dyn Changelog);
            let id = job.id();
            match job.step(changelog, clock) {
                RestoreStep::Again(wait_ms) => self.jobs.push_back((attempt, clock.mono_ms() + wait_ms, job)),
                RestoreStep::Ready(ready) => return Some(Answer { id, attempt, result: Ok(ready) }),
                RestoreStep::Failed(error) => return Some(Answer { id, attempt, result: Err(error) }),
            }
        }
        None
    }

    fn needs_turns(&self) -> bool {
        !self.jobs.is_empty()
    }

    fn left(&self) -> [u64; 2] {
        by_stage(self.jobs.iter().map(|(_, _, job)| (job.id(), job.left())))
    }
}

fn by_stage(left: impl Iterator<Item = (TaskId, u64)>) -> [u64; 2] {
    let mut sums = [0; 2];
    for (id, left) in left {
        count(&mut sums, stage_at(id.stage), left);
    }
    sums
}

struct Job {
    attempt: u64,
    not_before_ms: u64,
    restore: Restore,
    watched: Watched,
    answers: SyncSender<Answer>,
}

/// What the lane of a job sees of it.
#[derive(Debug, Clone, Default)]
struct Watched {
    is_cancelled: Arc<AtomicBool>,
    left: Arc<AtomicU64>,
}

struct Queue {
    jobs: VecDeque<Job>,
    is_stopped: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The restore threads of a process.
pub struct RestorePool {
    shared: Arc<Shared>,
    store: Box<dyn StateStore>,
    settings: Arc<LaneSettings>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl RestorePool {
    /// Starts a thread for each reader.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(
        store: impl StateStore + 'static,
        settings: Arc<LaneSettings>,
        readers: Vec<Box<dyn Changelog>>,
        clock: &Arc<dyn Clock + Send + Sync>,
    ) -> std::io::Result<Self> {
        let queue = Mutex::new(Queue { jobs: VecDeque::new(), is_stopped: false });
        let shared = Arc::new(Shared { queue, changed: Condvar::new() });
        let mut threads = Vec::new();
        for (number, reader) in readers.into_iter().enumerate() {
            let (shared, clock) = (Arc::clone(&shared), Arc::clone(clock));
            let thread = thread::Builder::new().name(format!("restore-{number}"));
            threads.push(thread.spawn(move || work(&shared, reader, &*clock))?);
        }
        Ok(Self { shared, store: Box::new(store), settings, threads })
    }

    /// A lane's access.
    pub fn client(&self) -> Box<dyn Restorer> {
        let (sender, answers) = sync_channel(ANSWERS_MAX);
        let (store, settings) = (self.store.handle(), Arc::clone(&self.settings));
        Box::new(Client { shared: Arc::clone(&self.shared), store, settings, sender, answers, running: Vec::new() })
    }

    /// Ends the threads after their current step.
    pub fn stop(self) {
        self.shared.lock().is_stopped = true;
        self.shared.changed.notify_all();
        for thread in self.threads {
            // A step that panics is an answer; nothing else does.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, mut reader: Box<dyn Changelog>, clock: &dyn Clock) {
    'jobs: loop {
        let mut queue = shared.lock();
        let mut job = loop {
            if queue.is_stopped {
                return;
            }
            let now = clock.mono_ms();
            if let Some(at) = queue.jobs.iter().position(|job| job.not_before_ms <= now)
                && let Some(job) = queue.jobs.remove(at)
            {
                break job;
            }
            let next = queue.jobs.iter().map(|job| job.not_before_ms.saturating_sub(now)).min().unwrap_or(IDLE_MS);
            let wait = Duration::from_millis(next.clamp(1, IDLE_MS));
            queue = shared.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(queue);
        let (id, attempt) = (job.restore.id(), job.attempt);
        // One after the other: a reader that changes between tasks throws away what it has fetched ahead, and the first would be
        // ready no sooner than the last.
        let result = loop {
            if job.watched.is_cancelled.load(Ordering::Acquire) || shared.lock().is_stopped {
                break None;
            }
            let step = guarded(|| job.restore.step(Some(&mut *reader), clock)).unwrap_or_else(|_| {
                let message =
                    format!("restoring {id} panicked: its state, or the changelog, holds what this program cannot read");
                RestoreStep::Failed(RestoreError::Store(StoreError::Corrupt(message)))
            });
            match step {
                RestoreStep::Again(0) => job.watched.left.store(job.restore.left(), Ordering::Relaxed),
                RestoreStep::Again(wait_ms) => {
                    job.not_before_ms = clock.mono_ms() + wait_ms;
                    job.watched.left.store(job.restore.left(), Ordering::Relaxed);
                    shared.lock().jobs.push_back(job);
                    continue 'jobs;
                }
                RestoreStep::Ready(ready) => break Some(Ok(ready)),
                RestoreStep::Failed(error) => break Some(Err(error)),
            }
        };
        let Some(result) = result else { continue };
        // A lane that is gone needs no answer; dropping it gives the lease back.
        let _ = job.answers.try_send(Answer { id, attempt, result });
    }
}

struct Client {
    shared: Arc<Shared>,
    store: Box<dyn StateStore>,
    settings: Arc<LaneSettings>,
    sender: SyncSender<Answer>,
    answers: Receiver<Answer>,
    running: Vec<(TaskId, Watched)>,
}

impl Restorer for Client {
    fn submit(&mut self, task: Task<Restoring>, attempt: u64) {
        let watched = Watched::default();
        self.running.push((task.id(), watched.clone()));
        let restore = Restore::new(task, self.store.handle(), Arc::clone(&self.settings));
        let job = Job { attempt, not_before_ms: 0, restore, watched, answers: self.sender.clone() };
        self.shared.lock().jobs.push_back(job);
        self.shared.changed.notify_one();
    }

    fn cancel(&mut self, id: TaskId) {
        for (of, watched) in &self.running {
            if *of == id {
                watched.is_cancelled.store(true, Ordering::Release);
            }
        }
        self.running.retain(|(of, _)| *of != id);
        self.shared.lock().jobs.retain(|job| !job.watched.is_cancelled.load(Ordering::Acquire));
    }

    fn poll(&mut self, _clock: &dyn Clock) -> Option<Answer> {
        let answer = self.answers.try_recv().ok()?;
        self.running.retain(|(of, _)| *of != answer.id);
        Some(answer)
    }

    fn needs_turns(&self) -> bool {
        !self.running.is_empty()
    }

    fn left(&self) -> [u64; 2] {
        by_stage(self.running.iter().map(|(id, watched)| (*id, watched.left.load(Ordering::Relaxed))))
    }
}
