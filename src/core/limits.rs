//! Bounds of what comes from outside, and of what is kept of it: number, unit, reason. A bound of one algorithm alone stands beside it.

use std::time::Duration;

/// Records larger than this are dead letters. Bytes. Kafka's own default is 1 MiB; a tool event is mostly text cut by its producer.
pub const RECORD_BYTES_MAX_DEFAULT: usize = 256 * 1024;
/// The largest `RECORD_BYTES_MAX_DEFAULT` a setting may ask for. Bytes.
pub const RECORD_BYTES_MAX_CEILING: usize = 1024 * 1024;
/// What a guard adds to an event that its agent sent: the id of the call, the refusal and the command behind it. Bytes. A lane takes records
/// so much larger than those an agent may send, or a refusal would make a dead letter of a call.
pub const REWRITTEN_BYTES_MAX: usize = 2 * 1024;
/// Nesting of a record's JSON. Deeper is a dead letter: recursion over hostile input must be bounded.
pub const JSON_DEPTH_MAX: usize = 64;
/// Characters of a name (`id`, `session_id`, `tool` …). Longer is a dead letter, since cutting would merge two ids.
pub const NAME_CHARS_MAX: usize = 256;
/// Characters of the opaque `state` of the world.
pub const STATE_CHARS_MAX: usize = 128;
/// Characters that are kept of an event's `error.message`.
pub const ERROR_CHARS_MAX: usize = 4_096;
/// Characters kept of a message's `text`.
pub const TEXT_CHARS_MAX: usize = 16_384;
/// Characters that are kept of a call's `description`.
pub const DESCRIPTION_CHARS_MAX: usize = 1_024;
/// Labels carried from an event to its commands.
pub const LABELS_MAX: usize = 16;
/// Characters of a label's key.
pub const LABEL_KEY_CHARS_MAX: usize = 64;
/// Characters of a label's value.
pub const LABEL_VALUE_CHARS_MAX: usize = 256;
/// How far an event's own time may lie after its record's timestamp. Milliseconds. One wrong clock must not fire a partition's timers.
pub const FUTURE_MS_MAX: i64 = 60_000;
/// How far an event's time may lie before its record's timestamp and still choose the window of a budget: beyond it counts when it was
/// recorded. Milliseconds. Whoever writes the time of his events must not choose a window that is over.
pub const USED_LATE_MS_MAX: i64 = 60 * 60_000;
/// US dollars of one event's `usage`. What costs more is a mistake, and would spoil the sums of a whole fleet.
pub const COST_USD_MAX: f64 = 1e9;
/// Texts of ours that a session remembers, so that one stored as a person's message clears no evidence.
pub const SENT_TEXTS_MAX: usize = 8;
/// Open calls of a session whose cost is remembered; that of the oldest then counts in no loop.
pub const OPEN_COSTS_MAX: usize = 32;
/// Longest stop of an operator. Milliseconds. A week: whoever needs longer takes the agents out of service.
pub const STOP_MS_MAX: i64 = 7 * 86_400_000;
/// How long a session is blocked whose own budget is used up. Milliseconds. Its sum never shrinks, so only whoever raises the limit ends it
/// before; and no row outlives a session for longer.
pub const SESSION_BUDGET_MS: i64 = 7 * 86_400_000;
/// Characters of the reason that an operator gives.
pub const STOP_REASON_CHARS_MAX: usize = 256;
/// How long a stop is remembered after its end, so that an event of it that comes again changes nothing. Milliseconds.
pub const STOP_REMEMBERED_MS: i64 = 86_400_000;
/// Longest time that a person's answer lets a loop be. Milliseconds. A month: a policy is the place for longer.
pub const ALLOWED_MS_MAX: i64 = 30 * 86_400_000;
/// Loops of one session that answers let be; the oldest leaves.
pub const EXEMPTIONS_MAX: usize = 16;
/// Stops of sessions, agents, trees and swarms of a tenant that are in force in one task; a further one is refused.
pub const STOPS_MAX: usize = 1_024;
/// Such stops that one task remembers, those that are over among them: of these the one that means least is forgotten then.
pub const STOPS_KEPT_MAX: usize = 2 * STOPS_MAX;
/// Ids of events that are no call, remembered per session to drop redeliveries.
pub const RECENT_IDS_MAX: usize = 64;
/// Tokens of a step's signature: of more, the smallest hashes stay (a bottom-k sketch).
pub const TOKENS_MAX: usize = 64;
/// Readable text of a result that detectors look into. Bytes. A signal after the first quarter of a megabyte is no signal.
pub const READABLE_BYTES_MAX: usize = 256 * 1024;
/// The largest `history_steps` a policy may ask for.
pub const HISTORY_STEPS_MAX: usize = 65_536;
/// Live verdicts of a session or of a swarm's counter: what one state row holds. A block of a session beyond them goes out as a nudge.
pub const ACTIVE_VERDICTS_MAX: usize = 16;
/// Safe characters of a tool's name inside a text for an agent.
pub const TOOL_NAME_CHARS_SHOWN: usize = 64;
/// Argument names listed inside a text for an agent.
pub const ARG_NAMES_SHOWN: usize = 5;
/// Largest pattern a user may configure, compiled. Bytes.
pub const REGEX_BYTES_MAX: usize = 1024 * 1024;
/// Longest time span in a policy: ten years of 365 days. Milliseconds. Longer is a slip of units.
pub const POLICY_MS_MAX: i64 = 315_360_000_000;
/// Entries of a list in a policy (names, patterns, `[[tool]]`).
pub const POLICY_LIST_MAX: usize = 1_024;
/// The largest threshold factor a policy may ask for.
pub const FACTOR_MAX: f64 = 1_000.0;
/// The largest `episodes.kept` a policy may ask for: episodes are part of a session's head, which is written at every event.
pub const EPISODES_KEPT_MAX: usize = 64;
/// Latest turns whose new files `exploration` remembers, one byte each in a session's head.
pub const EXPLORED_TURNS_MAX: usize = 8;
/// Panes of a swarm counter: each is kept, and every report may look at all of them.
pub const SWARM_PANES_MAX: usize = 4_096;
/// Panes live at least this long in event time, so that a partition that lags by minutes still lands in its pane (rule W3). Milliseconds.
pub const SWARM_PANE_LIFE_MS_MIN: i64 = 3_600_000;
/// Calls that a task of the swarm stage keeps for the sake of its slowest source. About 300 MB on disk. From half of them on, partitions
/// that are ahead are not read; beyond them time moves on, and what comes is late (rule W5).
pub const SWARM_LAG_CALLS_MAX: u64 = 4_000_000;
/// What a partition may be ahead of the slowest one where it is not read for its sake. Milliseconds between the times of recording.
pub const SWARM_LAG_AHEAD_MS: i64 = 600_000;
/// How long a partition is not read for the sake of one that does not move. Milliseconds.
pub const SWARM_LAG_WAIT_MS: u64 = 300_000;
/// Points of time that a task of the swarm stage remembers until its sources have got there.
pub const SWARM_TIMES_MAX: usize = 32;
/// How long a lane waits before it sends source watermarks again: at least, and at most while nothing comes. Milliseconds.
pub const SOURCES_MS: std::ops::Range<u64> = 5_000..20_000;
/// How much older than the answer of its log a lane takes the news that a partition is read to its end. It covers what is on its way from
/// a broker, and clocks of machines that differ. Milliseconds.
pub const SOURCE_END_SLACK_MS: i64 = 2_000;
/// Steps of one window that one report publishes, where each call is a step: the greatest. A lane that catches up reports tens of thousands of
/// calls at once, and nobody needs a command for each.
pub const SWARM_STEPS_MAX: u32 = 256;
/// The largest `workers_max` a policy may ask for: with ordinary names they fit into a pane's record.
pub const SWARM_WORKERS_MAX: usize = 8_192;
/// Agents of a pane with their names. Bytes. A pane is one record of a changelog, and the client sends none above 1,000,000 bytes.
pub const SWARM_PANE_BYTES_MAX: usize = 768 * 1024;
/// The largest `keys_max` a policy may ask for.
pub const SWARM_KEYS_MAX: usize = 16_777_216;
/// Bytes of a configuration or policy file.
pub const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Lanes of one process: a thread, a consumer and a producer each.
pub const LANES_MAX: u32 = 256;

/// Wait for the acknowledgement of a commit's records. The sum of the lane's waits stays below `max.poll.interval.ms` (60 s).
pub const DRAIN_WAIT: Duration = Duration::from_secs(7);
/// Wait for the offsets to join a transaction.
pub const OFFSETS_WAIT: Duration = Duration::from_secs(5);
/// Wait for the group's offsets, asked for by the first commit after each rebalance. Short, since a commit is made again: with the waits of
/// a commit and of a new producer before it, it stays below the watchdog's 30 s.
pub const CONFIRM_WAIT: Duration = Duration::from_secs(1);
/// Wait for the decision; past it the outcome is unknown.
pub const COMMIT_WAIT: Duration = Duration::from_secs(10);
/// Wait for an abort; past it the producer is replaced.
pub const ABORT_WAIT: Duration = Duration::from_secs(5);
/// One slice of taking over a transactional id; between two the consumer is polled.
pub const TAKE_OVER_SLICE: Duration = Duration::from_secs(2);
/// Wait for taking over a transactional id at a start: an old transaction's markers may have to be written first.
pub const TAKE_OVER_WAIT: Duration = Duration::from_secs(30);
/// The same for a lane at work, which tries again: with the waits of a commit it stays below the watchdog's 30 s.
pub const REOPEN_WAIT: Duration = Duration::from_secs(6);
/// Wait for the first answer of any broker at a start.
pub const CONNECT_WAIT: Duration = Duration::from_secs(20);
/// What a group may take beyond a session to let go of a place that nobody speaks for.
pub const PLACE_GRACE: Duration = Duration::from_secs(6);
/// Wait for that, however long the session is: shorter than a lane may be in trouble.
pub const PLACE_WAIT_MAX: Duration = Duration::from_secs(120);
/// How long a group under the consumer protocol may refuse a lane for the sake of one that nobody speaks for: the longest session that
/// brokers allow by default, and slack.
pub const REFUSED_WAIT_MAX: Duration = Duration::from_secs(75);
/// How long a lane asks about it before it takes another turn. Together with the last question shorter than it may be silent.
pub const PLACE_SLICE: Duration = Duration::from_secs(2);
/// Wait for a single answer about it.
pub const PLACE_ASK_WAIT: Duration = Duration::from_secs(5);
/// Between two questions about it.
pub const PLACE_ASK_PAUSE: Duration = Duration::from_millis(500);
/// Wait for a single question to a broker: metadata, offsets.
pub const ASK_WAIT: Duration = Duration::from_secs(10);
/// Longest time before a client asks for its token again: one in a file may be replaced long before it ends.
pub const TOKEN_ASK: Duration = Duration::from_secs(60);
/// Wait until what an operator sends is durable, and for room in the client's queue.
pub const WRITE_WAIT: Duration = Duration::from_secs(60);
/// Wait for a partition to be ready to be sought.
pub const SEEK_WAIT: Duration = Duration::from_secs(10);
/// Without a record or an end for this long, a read of a changelog is given up and tried again.
pub const READ_IDLE_MAX: Duration = Duration::from_secs(30);
/// Wait for leaving the group when scaling in.
pub const LEAVE_WAIT: Duration = Duration::from_secs(10);
/// Wait for a client of the brokers to end; past it the client is left behind. One ends within a second, unless something it waits for does not
/// come. Together with the wait for a transactional id shorter than a lane may be silent.
pub const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Records one poll hands over: between two, the lane looks at its clock.
pub const POLL_RECORDS_MAX: usize = 500;
/// Bytes one poll hands over, unless its first record is larger.
pub const POLL_BYTES_MAX: usize = 1024 * 1024;
/// Headers read of a record; more are left out. Ten are usual, and a record of a megabyte has room for 300,000.
pub const HEADERS_MAX: usize = 256;

/// Agents of one session that a `reset` with scope `session` reaches, in key order. As many at a time as a commit takes.
pub const RESET_AGENTS_MAX: usize = 4_096;
/// Agents of one session that an inspection shows.
pub const AGENTS_SHOWN: usize = 256;
/// Counters of one swarm that an inspection shows.
pub const COUNTERS_SHOWN: usize = 256;
/// Timers that a lane looks at for what is in force: a few milliseconds. Verdicts end sooner than sessions, and sort before them.
pub const IN_FORCE_TIMERS_MAX: usize = 10_000;
/// Timers of a task held in memory; the rest waits in the store, in order.
pub const TIMERS_HELD_MAX: usize = 4_096;
/// Tenants that a task counts in a minute, where the policy limits them. Of more, those with the fewest events are counted too low.
pub const TENANTS_COUNTED_MAX: usize = 256;
/// Records of a lane that may wait for one commit. Together with the next bound: memory of a lane, and work lost by an abort.
pub const OVERLAY_RECORDS_MAX: u64 = 50_000;
/// Bytes of a lane that may wait for one commit.
pub const OVERLAY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Largest dead letter, headers and key included. Bytes. Kafka's default for a whole message is 1,048,588.
pub const DEAD_LETTER_BYTES_MAX: usize = 1_000_000;
/// Senders (record keys) of whom one record or more among the last [`BREAKER_RECORDS`] of a task has not the form of an event; one more
/// stops the task: a bad deploy must not drain the topic, and no sender alone is a deploy.
pub const BREAKER_SENDERS: usize = 50;
/// Records of a task among which [`BREAKER_SENDERS`] are counted.
pub const BREAKER_RECORDS: usize = 1_000;
/// Senders whose records or timers panicked within a minute of record time that stop a task.
pub const BREAKER_PANICS: usize = 10;
/// Dead letters of one sender within a minute of record time that hold its records; the next ones name the record and the reason. A sender
/// costs the topic of dead letters no more than so many records, however much it sends.
pub const LETTERS_WHOLE_PER_MINUTE: u32 = 100;
/// Key of a record in a dead letter that does not hold its record. Bytes: a name of 256 characters fits.
pub const LETTER_KEY_BYTES_MAX: usize = 1_024;
/// Deaths of the process at one record after which it becomes a dead letter.
pub const CRASHES_MAX: u8 = 3;
/// Timers that one record makes due of which a commit takes no more: each reads a session, and a lane must turn before its watchdog misses it.
pub const TIMERS_PER_COMMIT: usize = 4_096;
/// Records after a crash that are noted one by one; no poll hands over more.
pub const CAREFUL_RECORDS: u64 = 10_000;
/// Changelog bytes that a restore holds before it hands them to the store. Bytes.
pub const RESTORE_BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Changelog bytes after which a restore makes its progress durable. Bytes.
pub const RESTORE_FLUSH_BYTES: u64 = 256 * 1024 * 1024;
/// Names and sums of one record of `swarm-counts`, about; a report of more agents is several records. Bytes. A quarter of Kafka's default
/// for a whole message.
pub const REPORT_BYTES: usize = 256 * 1024;
/// Counters of a swarm that a reset reads from the store at a time.
pub const RESET_COUNTERS: usize = 1_024;

/// Connections of the listener at once; more wait in the operating system's queue.
pub const HTTP_CONNECTIONS_MAX: usize = 512;
/// Fewer free ones than this, and a connection is closed after its answer: who keeps one must not keep others out, least of all those that
/// ask how the process is.
pub const HTTP_CONNECTIONS_SPARE: usize = 64;
/// Open streams and long polls among them.
pub const HTTP_STREAMS_MAX: usize = 256;
/// Request line and headers of a request. Bytes. More is refused.
pub const HTTP_HEAD_BYTES_MAX: usize = 16 * 1024;
/// The same, when a connection is cut without an answer. Bytes.
pub const HTTP_HEAD_BYTES_CUT: usize = 64 * 1024;
/// Wait for a complete head; also how long a connection may be idle.
pub const HTTP_HEAD_WAIT: Duration = Duration::from_secs(10);
/// Wait for a complete body.
pub const HTTP_BODY_WAIT: Duration = Duration::from_secs(30);
/// How long the other end may take nothing of an answer.
pub const HTTP_WRITE_WAIT: Duration = Duration::from_secs(30);
/// Body of a request, but of a check, which is as large as an event may be. Bytes.
pub const HTTP_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Of a larger body, what is read and dropped: a client that writes first and reads then would see a broken connection, and no answer. Bytes.
pub const HTTP_BODY_BYTES_DROPPED: usize = 64 * 1024 * 1024;
/// How long that is done.
pub const HTTP_BODY_DROP_WAIT: Duration = Duration::from_secs(5);
/// Bodies on their way in, together; those of agents that wait for an answer have as much for themselves. Bytes.
pub const HTTP_BODIES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Events of one request: its answer names each rejected one.
pub const HTTP_EVENTS_MAX: usize = 16_384;
/// Wait for the disk before a request is answered without success. What it brought may be there all the same.
pub const HTTP_SYNC_WAIT: Duration = Duration::from_secs(30);
/// Longest wait of a long poll.
pub const HTTP_POLL_WAIT_MAX: Duration = Duration::from_secs(60);
/// Commands that one read hands over, and one long poll answers with at most.
pub const HTTP_COMMANDS_MAX: usize = 1_000;
/// Bytes of commands after which one read ends: each client that follows may hold as many, and one command besides.
pub const HTTP_COMMANDS_BYTES: usize = 1 << 20;
/// Pause between two comments on a silent stream: proxies cut what is silent for longer.
pub const HTTP_COMMENT_PAUSE: Duration = Duration::from_secs(15);
/// State rows that one answer holds.
pub const HTTP_ROWS_MAX: usize = 256;
/// Steps of an agent that one answer holds, unless more are asked for.
pub const HTTP_STEPS_SHOWN: usize = 256;
/// The most that may be asked for.
pub const HTTP_STEPS_MAX: usize = 4_096;

/// Commands a process keeps to show with Kafka, where the feed itself is a topic: what a person reads of a list.
pub const RECENT_COMMANDS_MAX: usize = 200;
/// Bytes of them; a command has some 2 KiB, or more with excerpts.
pub const RECENT_BYTES_MAX: usize = 1 << 20;

/// Texts of people that a session remembers, to know what is new: a harness repeats itself sooner.
pub const USER_TEXTS_MAX: usize = 8;
/// Texts of people whose words are kept: what they name is worked through.
pub const USER_NAMING_TEXTS_MAX: usize = 2;
/// Words that are kept of each: two bytes a word, in every head.
pub const USER_WORDS_MAX: usize = 128;

/// Texts of the agent that a session remembers, to know what it repeats.
pub const OWN_TEXTS_MAX: usize = 8;

/// Tools whose calls a session's budget counts, each by itself: 12 bytes each.
pub const BUDGET_TOOLS_MAX: usize = 64;
/// Budgets of a policy: each is compared with every event.
pub const BUDGETS_MAX: usize = 32;
/// Counters of budgets and trees that a task of the swarm stage keeps, some 20 MiB of them; of a tenant beyond its share those unseen longest go first.
pub const BUDGET_KEYS_MAX: u64 = 65_536;
/// Briefs of a tree that a pane keeps, those of the smallest hashes: 144 bytes each. More are agents all the same.
pub const BRIEFS_MAX: usize = 32;
/// Briefs that share so much of their runs of words are nearly equal. Percent.
pub const BRIEFS_ALIKE_PERCENT: usize = 80;
/// The largest price of a million tokens. US dollars.
pub const PRICE_USD_MAX: f64 = 1e6;
