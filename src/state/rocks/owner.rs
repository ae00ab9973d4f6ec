//! Whose database it is: format, application, instance, cluster. Two processes with one directory would be two owners of one state.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{StoreError, codec};

/// Key of the owner's name in [`Area::Meta`](crate::Area).
pub(super) const KEY: &[u8] = b"owner";

/// Whom a directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreOwner {
    /// Name of the installation: the consumer group.
    pub app: String,
    /// Stable name of the process; of an embedded log only that of its first one.
    pub instance: String,
    /// Id of the Kafka cluster; `None` in embedded mode, whose positions mean nothing to Kafka, and the other way round.
    pub cluster: Option<String>,
}

impl StoreOwner {
    /// The record of a directory.
    pub(super) fn encode(&self) -> Result<Vec<u8>, StoreError> {
        codec::encode(self)
    }

    /// Whether the record of a directory names this owner.
    ///
    /// # Errors
    /// [`StoreError::OtherOwner`], with the first thing that differs.
    pub(super) fn check(&self, record: &[u8], dir: &Path) -> Result<(), StoreError> {
        let found: Self = codec::decode("the state directory", record)?;
        match found.facts().into_iter().zip(self.facts()).find(|(theirs, ours)| theirs != ours) {
            Some((theirs, ours)) => {
                Err(StoreError::OtherOwner(format!("state in {} belongs to {theirs}, this is {ours}", dir.display())))
            }
            None => Ok(()),
        }
    }

    fn facts(&self) -> [String; 3] {
        let (instance, log) = match &self.cluster {
            Some(cluster) => (format!("instance \"{}\"", self.instance), format!("the Kafka cluster \"{cluster}\"")),
            // Nobody else can have the identity of a log that lies beside its state; a host that is renamed goes on with both.
            None => (String::new(), "an embedded log".to_owned()),
        };
        [format!("application \"{}\"", self.app), log, instance]
    }
}
