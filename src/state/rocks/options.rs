//! The areas of the database, and how it is opened: many small keys, read by point and by prefix, one memory budget for all areas.

use rocksdb::statistics::StatsLevel;
use rocksdb::{BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, Options, WriteBufferManager};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// Files at level 0 from which on writes are slowed down.
const LEVEL_0_SLOW: i32 = 64;
/// Files at level 0 at which writes stop.
const LEVEL_0_STOP: i32 = 256;

/// A part of the database with its own keys. One batch may write to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    State,
    /// Records of the embedded log's inputs.
    Events,
    /// Records of the embedded log's outputs.
    Outputs,
    /// What the database itself is, and the embedded log's counters.
    Meta,
}

impl Area {
    pub const ALL: [Self; 4] = [Self::State, Self::Events, Self::Outputs, Self::Meta];

    /// Name of the column family.
    pub(super) const fn column_family(self) -> &'static str {
        match self {
            Self::State => rocksdb::DEFAULT_COLUMN_FAMILY_NAME,
            Self::Events => "events",
            Self::Outputs => "outputs",
            Self::Meta => "meta",
        }
    }
}

/// Sizes of the database's memory and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RocksOptions {
    /// Block cache, shared by all areas; index and filter blocks live in it too. Bytes.
    pub block_cache_bytes: usize,
    /// Write buffers of all areas together. Bytes.
    pub write_buffer_bytes: usize,
    /// Threads for flushes and compactions.
    pub background_jobs: u32,
    /// Files that are held open at most.
    pub open_files_max: u32,
}

impl Default for RocksOptions {
    fn default() -> Self {
        Self { block_cache_bytes: 256 * MIB, write_buffer_bytes: 128 * MIB, background_jobs: 2, open_files_max: 512 }
    }
}

/// The options of an open database: they hold its cache and its statistics.
pub(super) struct OpenOptions {
    pub(super) database: Options,
    pub(super) cache: Cache,
    write_buffer_bytes: usize,
}

impl OpenOptions {
    pub(super) fn new(given: &RocksOptions) -> Self {
        let cache = Cache::new_lru_cache(given.block_cache_bytes);
        let mut database = Options::default();
        database.create_missing_column_families(true);
        // A power cut may leave pages of an unsynced end in any order: all from the first damage on goes. Whether any of it was durable, the
        // mark shows. Logs that were closed are not taken for such an end where they are absent or shorter.
        database.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
        database.set_track_and_verify_wals_in_manifest(true);
        database.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager(given.write_buffer_bytes, false));
        database.set_max_background_jobs(i32::try_from(given.background_jobs.max(2)).unwrap_or(i32::MAX));
        database.set_max_open_files(i32::try_from(given.open_files_max.max(64)).unwrap_or(i32::MAX));
        // Also bounds what a start has to read again.
        database.set_max_total_wal_size(4 * given.write_buffer_bytes.max(16 * MIB) as u64);
        database.set_bytes_per_sync(MIB as u64);
        database.set_keep_log_file_num(4);
        database.set_max_log_file_size(4 * MIB);
        database.set_stats_dump_period_sec(0);
        database.enable_statistics();
        database.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
        Self { database, cache, write_buffer_bytes: given.write_buffer_bytes }
    }

    pub(super) fn of(&self, area: Area) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        let mut options = Options::default();
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_write_buffer_size((self.write_buffer_bytes / 4).clamp(64 * KIB, 64 * MIB));
        // All of the budget: a restore writes faster than one buffer is flushed.
        options.set_max_write_buffer_number(4);
        // Each start after a kill leaves one small file more at level 0. In a process killed sixty times RocksDB's own log reported slowed
        // writes from 20 files on and stopped ones from 36, its defaults; a start that took six seconds is put down to that, not traced.
        options.set_level_zero_slowdown_writes_trigger(LEVEL_0_SLOW);
        options.set_level_zero_stop_writes_trigger(LEVEL_0_STOP);
        match area {
            Area::State | Area::Meta => {
                // Point reads of small values: small blocks, and no look into files that lack the key.
                table.set_block_size(8 * KIB);
                table.set_bloom_filter(10.0, false);
                table.set_optimize_filters_for_memory(true);
                options.set_memtable_whole_key_filtering(true);
                options.set_memtable_prefix_bloom_ratio(0.02);
            }
            // Read in order only.
            Area::Events | Area::Outputs => table.set_block_size(32 * KIB),
        }
        options.set_block_based_table_factory(&table);
        options
    }
}
