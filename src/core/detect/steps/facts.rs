//! What a completed step shows, for or against that its agent goes round in circles. Each fact is true or false, and one plain sentence states
//! which. What it weighs is the policy's (`[score.weights]`).

/// On which side a fact may weigh: what is evidence of a loop may never count against one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Of a loop: its weight is not negative.
    Loop,
    /// Of work: its weight is not positive.
    Work,
}

macro_rules! facts {
    ($($Variant:ident = $bit:literal, $name:literal, $side:ident, $sentence:literal;)*) => {
        /// A fact about a step. The bits are stored and never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Fact {
            $(#[doc = $sentence] $Variant = $bit,)*
        }

        impl Fact {
            /// All of them, in the order in which they are listed.
            pub const ALL: [Self; [$($bit),*].len()] = [$(Self::$Variant),*];

            /// The name in policies and in `inspect`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)*
                }
            }

            /// On which side it may weigh.
            #[must_use]
            pub const fn side(self) -> Side {
                match self {
                    $(Self::$Variant => Side::$side,)*
                }
            }

            /// The sentence that explains it to people.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$Variant => $sentence,)*
                }
            }
        }
    };
}

facts! {
    Equal1 = 0, "equal_1", Loop, "The same call got much the same answer before, and nothing was changed since.";
    Equal2 = 1, "equal_2", Loop, "It did so twice.";
    Equal3 = 2, "equal_3", Loop, "It did so three times.";
    EqualOften3 = 3, "equal_often_3", Loop, "The same call got much the same answer three times, whatever lay between.";
    EqualOften5 = 4, "equal_often_5", Loop, "It did so five times.";
    NumbersAlone3 = 5, "numbers_alone_3", Loop, "Three answers to the same call differ from this one in numbers and ids alone.";
    BackAgain = 6, "back_again", Loop, "The same call was answered otherwise last time, and like this before.";
    Near1 = 7, "near_1", Loop, "A call nearly equal got much the same answer before, and nothing was changed since.";
    Near3 = 8, "near_3", Loop, "Three such calls did.";
    QuietKnown = 9, "quiet_known", Loop, "A call like an earlier one brought nothing new.";
    Quiet = 10, "quiet", Loop, "It worked and brought nothing new, from a tool that was used before.";
    Quiet3 = 11, "quiet_3", Loop, "It is the third step in a row that worked and brought nothing.";
    Quiet5 = 12, "quiet_5", Loop, "It is the fifth.";
    Quiet7 = 13, "quiet_7", Loop, "It is the seventh.";
    KnownAnswer = 14, "known_answer", Loop, "The whole answer was given before, to whatever call.";
    NothingFound3 = 15, "nothing_found_3", Loop, "Three calls of the tool got this short answer, and none another one since.";
    Fails1 = 16, "fails_1", Loop, "A call of the tool failed in the same way, and none like it has worked since.";
    Fails2 = 17, "fails_2", Loop, "Two did.";
    Fails3 = 18, "fails_3", Loop, "Three did.";
    Fails5 = 19, "fails_5", Loop, "Five of the last calls of the tool failed in the same way.";
    FailsNew = 20, "fails_new", Loop, "A call like none before has failed.";
    FailsElsewhere = 21, "fails_elsewhere", Loop, "A call of another tool failed in the same way.";
    FailsInARow3 = 22, "fails_in_a_row_3", Loop, "Three steps before it failed as well, in whatever way.";
    Round = 23, "round", Loop, "The last two to eight calls are those before them, answered alike.";
    EqualAfterChange = 32, "equal_after_change", Work, "The same call got this answer before, but something was changed since.";
    EqualOtherwise = 33, "equal_otherwise", Work, "The same call was answered otherwise last time.";
    Item = 34, "item", Work, "It takes an item off a list: it names what was shown, and is new to its tool.";
    NewCall = 35, "new_call", Work, "A call like none before has worked.";
    News = 36, "news", Work, "More than a fifth of the answer is new.";
    MuchNews = 37, "much_news", Work, "Three fifths of the answer are new.";
    Change = 38, "change", Work, "It changes something, and was not made before.";
    WorksAgain = 39, "works_again", Work, "The tool works again after a failure.";
    Different = 40, "different", Work, "The last six to twelve calls are all different.";
}

/// The facts that a step shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts(pub u64);

impl Facts {
    /// Facts that compare contents, and alone are ground for a block: equal calls, failures, rounds.
    pub const CONCLUSIVE: Self = Self::of(&[Fact::Equal1, Fact::EqualOften3, Fact::Fails2, Fact::Fails5, Fact::Round]);
    /// Facts of one call that is made again and again.
    pub const EQUAL: Self = Self::of(&[Fact::Equal2, Fact::EqualOften3, Fact::NumbersAlone3]);
    /// Facts of a call that was made before, or nearly.
    pub const LIKE: Self = Self::of(&[Fact::Equal1, Fact::Near1, Fact::QuietKnown, Fact::BackAgain]);

    const fn of(facts: &[Fact]) -> Self {
        let (mut bits, mut rest) = (0, facts);
        while let [fact, others @ ..] = rest {
            bits |= 1 << (*fact as u8);
            rest = others;
        }
        Self(bits)
    }

    /// Notes a fact that holds.
    pub const fn note(&mut self, fact: Fact, holds: bool) {
        if holds {
            self.0 |= 1 << (fact as u8);
        }
    }

    #[must_use]
    pub const fn has(self, fact: Fact) -> bool {
        self.0 >> (fact as u8) & 1 == 1
    }

    /// Whether one of `others` holds.
    #[must_use]
    pub const fn any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Fact> {
        Fact::ALL.into_iter().filter(move |fact| self.has(*fact))
    }
}

impl Fact {
    /// The fact of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fact| fact.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fact_has_a_bit_and_a_name_of_its_own() {
        let mut all = Facts::default();
        for fact in Fact::ALL {
            assert!(!all.has(fact) && (fact as u8) < 64, "{fact:?}");
            all.note(fact, true);
            assert_eq!(Fact::from_name(fact.as_str()), Some(fact));
        }
        assert_eq!(all.iter().count(), Fact::ALL.len());
        assert!(all.any(Facts::CONCLUSIVE) && !Facts::default().any(Facts::CONCLUSIVE));
    }
}
