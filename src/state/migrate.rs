//! One format step at a time: old values are stepped up to the newest format as they are read; newer ones are refused.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::{KeyFamily, StoreError, codec};

/// Rewrites a value, version byte included, as the next higher version.
type Step = fn(&[u8]) -> Result<Vec<u8>, StoreError>;

/// A step from `from` to `from + 1`.
struct Migration {
    family: KeyFamily,
    from: u8,
    step: Step,
}

/// Every step there is. None yet: the readers of heads, pages and counters know all of their formats.
const MIGRATIONS: &[Migration] = &[];

/// Newest format of a family's values.
pub const fn newest(family: KeyFamily) -> u8 {
    match family {
        // What a format adds stands behind what the one before had, and is read only where it is.
        KeyFamily::Head => 6,
        KeyFamily::Page | KeyFamily::SwarmPane => 3,
        KeyFamily::SwarmCounter => 2,
        KeyFamily::Position
        | KeyFamily::Timer
        | KeyFamily::Swarm
        | KeyFamily::SwarmSeen
        | KeyFamily::Growth
        | KeyFamily::Tenants
        | KeyFamily::Stop => 1,
    }
}

/// The format of a value whose reader knows all of them.
///
/// # Errors
/// As [`current`].
pub fn version(family: KeyFamily, bytes: &[u8]) -> Result<u8, StoreError> {
    match bytes.first() {
        Some(found) if (1..=newest(family)).contains(found) => Ok(*found),
        Some(found) if *found > newest(family) => Err(codec::newer(family.as_str(), *found, newest(family))),
        Some(found) => Err(StoreError::Corrupt(format!("{}: unknown format {found}", family.as_str()))),
        None => Err(StoreError::Corrupt(format!("{}: no bytes", family.as_str()))),
    }
}

/// The value in the newest format of its family; borrowed where it is already.
///
/// # Errors
/// [`StoreError::NewerFormat`]; [`StoreError::Corrupt`] for no bytes or a format that no step leads out of.
pub fn current(family: KeyFamily, bytes: &[u8]) -> Result<Cow<'_, [u8]>, StoreError> {
    step_up(family, newest(family), MIGRATIONS, bytes)
}

/// Reads a value of a family, whatever version wrote it, as its newest format.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode_family<T: DeserializeOwned>(family: KeyFamily, bytes: &[u8]) -> Result<T, StoreError> {
    codec::decode(family.as_str(), newest(family), &current(family, bytes)?)
}

fn step_up<'a>(family: KeyFamily, newest: u8, steps: &[Migration], bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, StoreError> {
    let mut value = Cow::Borrowed(bytes);
    loop {
        let found = *value.first().ok_or_else(|| StoreError::Corrupt(format!("{}: no bytes", family.as_str())))?;
        if found == newest {
            return Ok(value);
        }
        if found > newest {
            return Err(codec::newer(family.as_str(), found, newest));
        }
        let step = steps.iter().find(|step| step.family == family && step.from == found);
        let step = step.ok_or_else(|| StoreError::Corrupt(format!("{}: unknown format {found}", family.as_str())))?;
        let next = (step.step)(&value)?;
        if next.first() != Some(&(found + 1)) {
            return Err(StoreError::Corrupt(format!("{}: the step from format {found} failed", family.as_str())));
        }
        value = Cow::Owned(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        let (version, rest) = bytes.split_first().ok_or_else(|| StoreError::Corrupt("empty".to_owned()))?;
        Ok([&[version + 1], rest, &[version + 1]].concat())
    }

    #[test]
    fn an_old_value_is_stepped_up_one_format_at_a_time() {
        let steps = [
            Migration { family: KeyFamily::Head, from: 1, step: up },
            Migration { family: KeyFamily::Head, from: 2, step: up },
            Migration { family: KeyFamily::Page, from: 1, step: up },
        ];
        assert_eq!(&*step_up(KeyFamily::Head, 3, &steps, &[1, 9]).unwrap(), [3, 9, 2, 3]);
        assert_eq!(&*step_up(KeyFamily::Head, 3, &steps, &[3, 9]).unwrap(), [3, 9]);
        assert!(matches!(step_up(KeyFamily::Page, 3, &steps, &[1]), Err(StoreError::Corrupt(_))));
        assert!(matches!(step_up(KeyFamily::Head, 3, &steps, &[4]), Err(StoreError::NewerFormat(_))));
    }

    #[test]
    fn each_family_is_read_in_every_format_up_to_its_newest() {
        for family in KeyFamily::ALL {
            assert!((1..=newest(family)).all(|format| version(family, &[format, 2, 3]) == Ok(format)));
            assert!(current(family, &[newest(family), 2, 3]).is_ok());
            for answer in [version(family, &[0]), version(family, &[])] {
                assert!(matches!(answer, Err(StoreError::Corrupt(_))));
            }
            assert!(matches!(version(family, &[newest(family) + 1]), Err(StoreError::NewerFormat(_))));
            assert!(matches!(current(family, &[newest(family) + 1]), Err(StoreError::NewerFormat(_))));
        }
    }
}
