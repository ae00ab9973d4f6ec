//! The closed list of detectors, by the names that policies, commands and metrics use.

macro_rules! list {
    ($($Variant:ident = $number:literal, $name:ident;)*) => {
        /// A detector (page `detection`). The numbers are stored in steps and never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Detector {
            $($Variant = $number,)*
        }

        impl Detector {
            /// All of them, by number.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$Variant),*];

            pub const COUNT: usize = [$($number),*].len();

            /// The name in policies, commands (`reason.code`) and metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Variant => stringify!($name),)*
                }
            }
        }
    };
}
detectors!(list);

/// Detectors of a step or an event, by [`Detector::bit`].
pub type DetectorBits = u32;

impl Detector {
    /// The detector of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|detector| detector.as_str() == name)
    }

    /// The detector with that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether it reads evidence: such detectors share one episode.
    #[must_use]
    pub const fn is_of_evidence(self) -> bool {
        matches!(self, Self::SimilarRepeat | Self::NoNews | Self::SimilarFailures)
    }

    /// Whether it counts texts, which are no steps.
    #[must_use]
    pub const fn is_of_texts(self) -> bool {
        matches!(self, Self::TextOnly | Self::OwnWords)
    }

    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its bit in a set of detectors.
    #[must_use]
    pub const fn bit(self) -> DetectorBits {
        1 << (self as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_a_place_and_each_bit_fits() {
        for (place, detector) in Detector::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(detector.number()), place, "{}", detector.as_str());
            assert_eq!(Detector::from_number(detector.number()), Some(detector));
            assert_eq!(Detector::from_name(detector.as_str()), Some(detector));
        }
        assert!(Detector::COUNT <= DetectorBits::BITS as usize);
    }
}
