//! The profiles that ship with the program, as text. `config` parses and merges them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    pub name: &'static str,
    pub text: &'static str,
}

/// All shipped profiles: `default`, the base `plain`, and one per reference system.
pub const PROFILES: [Profile; 7] = [
    Profile { name: "default", text: include_str!("../../../config/profiles/default.toml") },
    Profile { name: "plain", text: include_str!("../../../config/profiles/plain.toml") },
    Profile { name: "hackeurope", text: include_str!("../../../config/profiles/hackeurope.toml") },
    Profile { name: "attocode", text: include_str!("../../../config/profiles/attocode.toml") },
    Profile { name: "cortex", text: include_str!("../../../config/profiles/cortex.toml") },
    Profile { name: "rockbot", text: include_str!("../../../config/profiles/rockbot.toml") },
    Profile { name: "ironcurtain", text: include_str!("../../../config/profiles/ironcurtain.toml") },
];

impl Profile {
    /// The profile that a policy without a base begins from, that every other one leads back to, and that names every key.
    pub const DEFAULT: Self = PROFILES[0];

    /// The shipped profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }
}
