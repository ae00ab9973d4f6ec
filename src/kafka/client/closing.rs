//! How clients end: within a time, whatever they wait for.
//!
//! Who drops a client of librdkafka waits for its threads, its group, its resolver, without a time: a lane that closed while it was being
//! assigned stood still for ever. So the end of each client, whatever it is, takes place on a thread of its own, which is waited for as long as
//! [`limits::CLOSE_WAIT`]; and a member pays what it owes to its group before ([`crate::client::rebalance`]).

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::{ops::Deref, sync::Arc, thread, time::Duration};

use loopwarden_core::limits;
use loopwarden_log::LogError;
use rdkafka::admin::AdminClient;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, ProducerContext, ThreadedProducer};

use crate::client::context::{ConsumerSide, PlainContext};
use crate::client::fate;

/// What a client does before it ends.
pub(crate) trait Close: Send + Sync + 'static {
    fn prepare(&self) {}
}

impl<C: ProducerContext + 'static> Close for ThreadedProducer<C> {}
impl<C: ProducerContext + 'static> Close for BaseProducer<C> {}
impl<C: ClientContext + 'static> Close for AdminClient<C> {}
/// Never in a group.
impl Close for BaseConsumer<PlainContext> {}

impl Close for BaseConsumer<ConsumerSide> {
    fn prepare(&self) {
        self.context().rebalances.close(self);
    }
}

/// A client that ends within [`limits::CLOSE_WAIT`] for whoever drops it.
pub(crate) struct Bounded<T: Close> {
    client: Arc<T>,
    /// Dropped after the one above.
    _last: Last<T>,
}

/// Ends the client, as its last owner.
struct Last<T: Close> {
    client: Option<Arc<T>>,
    name: String,
    wait: Duration,
}

impl<T: Close> Bounded<T> {
    /// Makes the client of these settings; talks to no broker yet.
    ///
    /// # Errors
    /// A setting that librdkafka refuses.
    pub(crate) fn make<C: ClientContext>(config: &ClientConfig, context: C, making: &str) -> Result<Self, LogError>
    where
        T: FromClientConfigAndContext<C>,
    {
        let client = config.create_with_context(context).map_err(|error| fate::of(&error, making))?;
        Ok(Self::new(client, config.get("client.id").unwrap_or("unnamed"), limits::CLOSE_WAIT))
    }

    fn new(client: T, name: &str, wait: Duration) -> Self {
        let client = Arc::new(client);
        Self { _last: Last { client: Some(Arc::clone(&client)), name: name.to_owned(), wait }, client }
    }
}

impl<T: Close> Deref for Bounded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.client
    }
}

impl<T: Close> Drop for Last<T> {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let (ended, has_ended) = sync_channel::<()>(0);
        let end = move || {
            client.prepare();
            drop(client);
            drop(ended);
        };
        // Without a thread the closure is dropped, and with it the client, here.
        let started = thread::Builder::new().name("closing".to_owned()).spawn(end);
        if started.is_ok() && has_ended.recv_timeout(self.wait) == Err(RecvTimeoutError::Timeout) {
            let seconds = self.wait.as_secs();
            tracing::warn!(client = self.name, "a Kafka client has not closed for {seconds} s, and is left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::Receiver;

    use loopwarden_log::clock::Deadline;

    use super::*;

    /// A client that ends when it is let.
    struct Slow(Mutex<Receiver<()>>);

    impl Close for Slow {}

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.lock().expect("nobody else has it").recv();
        }
    }

    #[test]
    fn a_client_that_does_not_end_is_left_behind() {
        let (end, waits) = sync_channel::<()>(0);
        drop(Bounded::new(Slow(Mutex::new(waits)), "slow", Duration::from_millis(10)));
        // It waits still.
        assert!(end.send(()).is_ok());
    }

    #[test]
    fn a_client_that_ends_is_waited_for() {
        let (end, waits) = sync_channel::<()>(0);
        drop(end);
        let long = Deadline::after(Duration::from_secs(3_600));
        let client = Bounded::new(Slow(Mutex::new(waits)), "quick", long.left());
        let still = Arc::downgrade(&client.client);
        drop(client);
        assert!(still.upgrade().is_none());
    }
}
