//! A synthetic fleet from a seed: agents that work, loop, oscillate, answer, end, send rubbish and send twice. The same seed is the
//! same input, record by record, so that nothing has to be kept to compare with.

/// Record time of the first event: in the past, or brokers refuse the records of a long run.
const BEGIN_MS: i64 = 1_780_000_000_000;
/// Sessions at a time.
const SLOTS: u64 = 400;

/// Small numbers from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// A record to be produced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The key.
    pub(crate) session: String,
    /// The value; `None` is a tombstone.
    pub(crate) value: Option<Vec<u8>>,
    /// Unix ms.
    pub(crate) timestamp_ms: i64,
}

/// What an agent does for a while.
#[derive(Debug, Clone, Copy)]
enum Mood {
    Works,
    Loops,
    Oscillates,
    Waits,
    Talks,
}

#[derive(Debug)]
struct Slot {
    life: u64,
    mood: Mood,
    left: u64,
    what: u64,
    last: Option<Vec<u8>>,
}

/// An endless fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    dice: Dice,
    now_us: i64,
    /// How many times slower its time passes.
    slower: i64,
    number: u64,
    slots: Vec<Slot>,
}

impl Fleet {
    pub(crate) fn new(seed: u64) -> Self {
        Self::beginning(seed, BEGIN_MS, 1)
    }

    /// A fleet at another time, which passes so many times slower: an event comes 8 ms after the one before, in the mean, where that is 1.
    pub(crate) fn beginning(seed: u64, begin_ms: i64, slower: i64) -> Self {
        let slots = (0..SLOTS).map(|_| Slot { life: 0, mood: Mood::Works, left: 0, what: 0, last: None }).collect();
        Self { dice: Dice::new(seed), now_us: begin_ms * 1_000, slower, number: 0, slots }
    }

    fn make(&mut self) -> Event {
        let Self { dice, now_us, slower, number, slots } = self;
        *number += 1;
        *now_us += if dice.below(5_000) == 0 { 20_000_000 } else { dice.below(8) as i64 * 1_000 } / *slower;
        let now_ms = *now_us / 1_000;
        // A few hot sessions.
        let place = if dice.below(8) == 0 { dice.below(4) } else { dice.below(SLOTS) };
        let slot = &mut slots[place as usize];
        let session = format!("s{place}-{}", slot.life);
        let agent = if dice.below(4) == 0 { "sub" } else { "main" };
        let late_ms = if dice.below(30) == 0 { dice.below(3_000) as i64 } else { 0 };
        let id = *number;
        let common = format!(
            r#""id":"e{id}","session_id":"{session}","agent":{{"id":"{agent}"}},"swarm_id":"w{}","time":{}"#,
            place % 16,
            now_ms - late_ms
        );
        if slot.left == 0 {
            slot.mood = match dice.below(10) {
                0..4 => Mood::Works,
                4..7 => Mood::Loops,
                7 => Mood::Oscillates,
                8 => Mood::Waits,
                _ => Mood::Talks,
            };
            slot.left = 4 + dice.below(30);
            // Those that loop do what others of their swarm do in vain, too.
            slot.what = if matches!(slot.mood, Mood::Loops) { dice.below(3) } else { dice.below(50) };
        }
        slot.left -= 1;
        let what = slot.what;
        let tool = ["Bash", "read_file", "search"][(what % 3) as usize];
        let json = match dice.below(400) {
            0 => format!(r#"{{{common},"kind":"nonsense"}}"#),
            1 => "not json".to_owned(),
            2..5 => {
                slot.life += 1;
                slot.left = 0;
                format!(r#"{{{common},"kind":"session_end"}}"#)
            }
            // No reset of a swarm: which calls it finds counted depends on how far the partitions are, and so would the commands.
            5..8 => format!(r#"{{{common},"kind":"reset","scope":"session"}}"#),
            8..10 => format!(r#"{{{common},"kind":"progress"}}"#),
            10..13 => format!(r#"{{{common},"kind":"message","role":"user","text":"please go on {id}"}}"#),
            // What a producer sends again after an answer was lost.
            13 => match &slot.last {
                Some(last) => String::from_utf8_lossy(last).into_owned(),
                None => "{}".to_owned(),
            },
            // Operators stop a session for days, and let it go on; one of two that are stopped is released.
            14..16 => format!(
                r#"{{{common},"kind":"stop","scope":"session","reason":"drill {what}","until":{}}}"#,
                now_ms + 3 * 86_400_000
            ),
            16 => format!(r#"{{{common},"kind":"release","scope":"session","reason":"drill"}}"#),
            _ => match slot.mood {
                Mood::Works => format!(
                    r#"{{{common},"kind":"tool","tool":"{tool}","args":{{"command":"make step-{id}","cwd":"/src/part-{what}"}},"result":"built {id} objects"}}"#
                ),
                Mood::Loops => format!(
                    r#"{{{common},"kind":"tool","tool":"{tool}","args":{{"command":"cargo test -p part-{what}"}},"outcome":"error","error":"part {what} does not link"}}"#
                ),
                Mood::Oscillates => format!(
                    r#"{{{common},"kind":"tool","tool":"edit","args":{{"path":"part-{what}.rs","text":"{}"}},"result":"ok"}}"#,
                    slot.left % 2
                ),
                Mood::Waits if slot.left.is_multiple_of(2) => format!(
                    r#"{{{common},"kind":"tool_call","tool":"{tool}","call_id":"c{}","args":{{"command":"job {what}"}}}}"#,
                    slot.left / 2
                ),
                Mood::Waits => format!(
                    r#"{{{common},"kind":"tool_result","tool":"{tool}","call_id":"c{}","result":"pending"}}"#,
                    slot.left.div_ceil(2)
                ),
                Mood::Talks => format!(r#"{{{common},"kind":"message","role":"assistant","text":"thinking about part {what}"}}"#),
            },
        };
        let value = (dice.below(2_000) != 0).then(|| json.into_bytes());
        slot.last.clone_from(&value);
        Event { session, value, timestamp_ms: now_ms }
    }
}

impl Iterator for Fleet {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        Some(self.make())
    }
}
