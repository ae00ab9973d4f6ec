//! What follows from the list of detectors: their settings, and who answers for each.

use crate::detect::detector::Detector;
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::setting::{Mode, Needs, Setting, SharedSettings, Table, section_toml};

macro_rules! table {
    ($($Variant:ident = $number:literal, $name:ident;)*) => {
        #[derive(Debug, Clone)]
        pub struct Detectors {
            $(pub $name: crate::detect::$name::Settings,)*
        }

        impl Detectors {
            /// Reads and checks `[detectors]`, with the modes as written.
            pub(crate) fn read(table: &mut Table<'_>) -> Self {
                Self { $($name: crate::detect::$name::Settings::read(&mut table.table(stringify!($name))),)* }
            }

            /// The mode of a detector.
            #[must_use]
            pub const fn mode(&self, detector: Detector) -> Mode {
                match detector {
                    $(Detector::$Variant => self.$name.mode,)*
                }
            }

            /// The mode of a detector, to change it.
            pub(crate) const fn mode_mut(&mut self, detector: Detector) -> &mut Mode {
                match detector {
                    $(Detector::$Variant => &mut self.$name.mode,)*
                }
            }

            /// What the settings of a detector have in common with those of others. Counts are before factors of tools.
            #[must_use]
            pub fn counts(&self, detector: Detector) -> CountSettings {
                match detector {
                    $(Detector::$Variant => self.$name.counts(),)*
                }
            }

            /// What a detector reads of each step while it runs.
            fn needs_of(&self, detector: Detector, policy: &SharedSettings) -> Needs {
                match detector {
                    $(Detector::$Variant => self.$name.needs(policy),)*
                }
            }

            /// The text of a command, by the detector of its finding.
            #[must_use]
            pub fn text(&self, context: &TextContext<'_>) -> CommandText {
                match context.finding.detector {
                    $(Detector::$Variant => self.$name.text(context),)*
                }
            }
        }

        impl Detector {
            #[must_use]
            pub const fn about(self) -> &'static About {
                match self {
                    $(Self::$Variant => &<crate::detect::$name::Settings as Rule>::ABOUT,)*
                }
            }

            /// Its settings, in the order of the policy file.
            #[must_use]
            pub const fn settings(self) -> &'static [Setting] {
                match self {
                    $(Self::$Variant => crate::detect::$name::Settings::SETTINGS,)*
                }
            }
        }
    };
}
detectors!(table);

impl Detector {
    /// Its table of the default policy, each setting with its text.
    #[must_use]
    pub fn default_toml(self) -> String {
        section_toml(&format!("[detectors.{}]", self.as_str()), self.about().title, self.settings(), "")
    }
}

impl Detectors {
    /// Whether a detector may place blocks by its own count: in mode `block`, unless that count is switched off.
    #[must_use]
    pub fn blocks_alone(&self, detector: Detector) -> bool {
        self.mode(detector) == Mode::Block && self.block_at(detector) > 0
    }

    /// Detectors in mode `block` that have no count of a block: by themselves they nudge at the most.
    #[must_use]
    pub fn that_only_nudge(&self) -> Vec<Detector> {
        let only_nudges = |detector: &Detector| self.mode(*detector) == Mode::Block && self.counts(*detector).block_at.is_none();
        Detector::ALL.into_iter().filter(only_nudges).collect()
    }

    /// Count of a block by a detector alone, before factors of tools; 0 = never.
    #[must_use]
    pub fn block_at(&self, detector: Detector) -> u32 {
        self.counts(detector).block_at.unwrap_or_default()
    }

    /// What is computed of each step: what one of the running detectors reads.
    pub(crate) fn needs(&self, policy: &SharedSettings) -> Needs {
        let running = Detector::ALL.into_iter().filter(|detector| self.mode(*detector).is_on());
        running.fold(Needs::default(), |needs, detector| needs.and(self.needs_of(detector, policy)))
    }
}
