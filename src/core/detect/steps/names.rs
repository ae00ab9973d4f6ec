//! Names of the tools in one session's history: each kept once, as long as a step of the ring uses it. So a hostile stream of
//! tool names costs at most one name per step of the ring.

/// Index of a tool's name in its session's table. Means nothing outside of it; on disk a step carries the name itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ToolId(pub u16);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct UsedName {
    name: Box<str>,
    uses: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolNames {
    entries: Vec<UsedName>,
}

impl ToolNames {
    /// Takes one more use of a name.
    pub fn take(&mut self, name: &str) -> ToolId {
        let mut free = None;
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if entry.uses == 0 {
                free = free.or(Some(index));
            } else if &*entry.name == name {
                entry.uses += 1;
                return ToolId(index as u16);
            }
        }
        let entry = UsedName { name: name.into(), uses: 1 };
        let index = free.unwrap_or(self.entries.len());
        match self.entries.get_mut(index) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        ToolId(index as u16)
    }

    pub fn release(&mut self, tool: ToolId) {
        if let Some(entry) = self.entries.get_mut(usize::from(tool.0)) {
            entry.uses = entry.uses.saturating_sub(1);
        }
    }

    /// The name of a tool; empty for an id that is not in use.
    #[must_use]
    pub fn name(&self, tool: ToolId) -> &str {
        self.entries.get(usize::from(tool.0)).map_or("", |entry| &entry.name)
    }

    /// The id of a name in use.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ToolId> {
        self.entries.iter().position(|entry| entry.uses > 0 && &*entry.name == name).map(|index| ToolId(index as u16))
    }

    /// Bytes held, for the cache's budget.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.name.len() + size_of::<UsedName>()).sum()
    }
}
