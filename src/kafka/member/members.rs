//! Who is in a group.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::groups::GroupInfo;

use crate::client::context::PlainContext;

/// The client ids of a group's members; `None` where its coordinator lists none of that name, as before it has loaded the group, or has
/// nothing to say of it, as after it has moved: one that has offsets is listed with or without members, and then it is in some state.
pub(crate) fn members(client: &BaseConsumer<PlainContext>, group: &str, wait: Duration) -> KafkaResult<Option<Vec<String>>> {
    let found = client.fetch_group_list(Some(group), wait)?;
    let client_ids = |known: &GroupInfo| known.members().iter().map(|member| member.client_id().to_owned()).collect();
    let is_known = |known: &&GroupInfo| !matches!(known.state(), "" | "Dead");
    Ok(found.groups().first().filter(is_known).map(client_ids))
}
