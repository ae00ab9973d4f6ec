//! The standard metrics of a process, read from `/proc` at scrape time; where there is none, they are left out.

use std::{fmt, fs};

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::{collector::Collector, metrics::MetricType};

/// Names, with what they tell. They have no prefix: every program has them.
pub const METRICS: &[(&str, &str)] = &[
    ("process_start_time_seconds", "When the process began, Unix time"),
    ("process_cpu_seconds_total", "Processor time in user and system mode"),
    ("process_resident_memory_bytes", "Memory in RAM"),
    ("process_open_fds", "Open file descriptors"),
    ("process_max_fds", "File descriptors it may have"),
];

/// Ticks of `/proc` in a second: part of the interface to programs, whatever the kernel counts in.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads them when it is scraped.
#[derive(Debug)]
pub(super) struct Scrape;

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help) in METRICS {
            let Some(value) = value(name) else { continue };
            if let Some(name) = name.strip_suffix("_total") {
                // The encoder adds the ending.
                let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
                family.encode_counter::<NoLabelSet, f64, u64>(&value, None)?;
            } else {
                encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

fn value(name: &str) -> Option<f64> {
    let own = |file: &str| fs::read_to_string(format!("/proc/self/{file}")).ok();
    match name {
        "process_start_time_seconds" => {
            let stat = fs::read_to_string("/proc/stat").ok()?;
            let boot: f64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
            Some(boot + field(&own("stat")?, 22)? / TICKS_PER_SECOND)
        }
        "process_cpu_seconds_total" => {
            let stat = own("stat")?;
            Some((field(&stat, 14)? + field(&stat, 15)?) / TICKS_PER_SECOND)
        }
        "process_resident_memory_bytes" => {
            let status = own("status")?;
            let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            Some(kib.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? * 1024.0)
        }
        "process_open_fds" => Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64),
        _ => {
            let limits = own("limits")?;
            let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
            line.split_whitespace().next()?.parse().ok()
        }
    }
}

/// A field of `/proc/self/stat`, counted from 1. The second is the program's name, and may hold anything.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(number.checked_sub(3)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_behind_any_name() {
        let stat = "42 (a b) (c)) S 1 42 42 0 -1 4194560 7 0 0 0 11 12 0 0 20 0 9 0 3456 1 2";
        assert_eq!((field(stat, 14), field(stat, 15), field(stat, 22)), (Some(11.0), Some(12.0), Some(3456.0)));
        assert_eq!(field("", 14), None);
    }

    #[test]
    fn this_process_tells_all_of_them() {
        for (name, _) in METRICS {
            assert!(value(name).is_some_and(|value| value > 0.0 || name.contains("cpu")), "{name}");
        }
        // Later than 2020.
        assert!(value("process_start_time_seconds").is_some_and(|seconds| seconds > 1.58e9));
    }
}
