//! Whose database it is: format, application, instance, cluster. Two processes with one directory would be two owners of one state.

use serde::Deserialize;
use serde::Serialize;

use crate::store::Area;
use crate::store::RocksStore;
use crate::store::StoreError;
use crate::store::codec;

/// Format of the whole directory: areas and keys.
const FORMAT: u8 = 1;
const KEY: &[u8] = b"owner";

/// Whom a directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreOwner {
    /// Name of the installation: the consumer group.
    pub app: String,
    /// Stable name of the process.
    pub instance: String,
    /// Id of the Kafka cluster; `None` while unknown, and in embedded mode.
    pub cluster: Option<String>,
}

/// Checks the record of a directory, and writes it where it is missing or learns its cluster only now.
pub(super) fn claim(store: &RocksStore, owner: &StoreOwner) -> Result<(), StoreError> {
    let mut claimed = owner.clone();
    if let Some(bytes) = store.get_raw(Area::Meta, KEY)? {
        let found: StoreOwner = codec::decode("the state directory", FORMAT, &bytes)?;
        let dir = store.dir().display();
        for (what, theirs, ours) in [("application", &found.app, &owner.app), ("instance", &found.instance, &owner.instance)] {
            if theirs != ours {
                return Err(StoreError::OtherOwner(format!("state in {dir} belongs to {what} \"{theirs}\", this is \"{ours}\"")));
            }
        }
        if let (Some(theirs), Some(ours)) = (&found.cluster, &owner.cluster)
            && theirs != ours
        {
            return Err(StoreError::OtherOwner(format!("state in {dir} belongs to cluster \"{theirs}\", this is \"{ours}\"")));
        }
        if owner.cluster.is_none() || found == *owner {
            return Ok(());
        }
        claimed.cluster.clone_from(&owner.cluster);
    }
    let mut batch = store.batch();
    batch.put(Area::Meta, KEY, &codec::encode(FORMAT, &claimed)?);
    store.write(batch)?;
    store.sync_wal()
}

impl RocksStore {
    /// Says which cluster this is, once it is known.
    ///
    /// # Errors
    /// [`StoreError::OtherOwner`] if the directory belongs to another.
    pub fn claim(&self, owner: &StoreOwner) -> Result<(), StoreError> {
        claim(self, owner)
    }
}
