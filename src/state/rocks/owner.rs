//! Whose database it is: format, application, instance, cluster. Two processes with one directory would be two owners of one state.

use serde::{Deserialize, Serialize};

use crate::{Area, RocksStore, StoreError, codec};

/// Format of the whole directory: areas and keys.
const FORMAT: u8 = 1;
const KEY: &[u8] = b"owner";

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

/// Checks the record of a directory, and writes it where it is missing.
pub(super) fn claim(store: &RocksStore, owner: &StoreOwner) -> Result<(), StoreError> {
    let Some(bytes) = store.get_raw(Area::Meta, KEY)? else {
        let mut batch = store.batch();
        batch.put(Area::Meta, KEY, &codec::encode(FORMAT, owner)?);
        store.write(batch)?;
        return store.sync_wal();
    };
    let found: StoreOwner = codec::decode("the state directory", FORMAT, &bytes)?;
    let facts = |owner: &StoreOwner| {
        let (instance, world) = match &owner.cluster {
            Some(cluster) => (format!("instance \"{}\"", owner.instance), format!("the Kafka cluster \"{cluster}\"")),
            // Nobody else can have the identity of a log that lies beside its state; a host that is renamed goes on with both.
            None => (String::new(), "an embedded log".to_owned()),
        };
        [format!("application \"{}\"", owner.app), world, instance]
    };
    match facts(&found).into_iter().zip(facts(owner)).find(|(theirs, ours)| theirs != ours) {
        Some((theirs, ours)) => {
            Err(StoreError::OtherOwner(format!("state in {} belongs to {theirs}, this is {ours}", store.dir().display())))
        }
        None => Ok(()),
    }
}
