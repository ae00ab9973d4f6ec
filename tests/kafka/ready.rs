//! Whether a process says that it cannot work while its only broker is frozen or dead, and that it can once it is back.

use std::process::Command;
use std::{fs, path::Path};

use loopwarden::clock::{Deadline, Stopwatch};

use crate::broker;
use crate::run::{Scratch, events, produce, program};
use crate::surface::Running;
use crate::world::{PATIENCE, World};

/// Questions while the broker is away: at 25 a second, more than the session of a member lasts.
const QUESTIONS: usize = 250;

/// Stops the broker of a directory as a machine does that stands still, or lets it go on.
fn signal(dir: &Path, name: &str) {
    let pattern = dir.join("server.properties");
    let sent = Command::new("pkill").args([&format!("-{name}"), "-f"]).arg(pattern).status().expect("pkill");
    assert!(sent.success(), "no broker to send {name}");
}

/// Whether it is ready, and what it shows. Without a task it never is.
fn asked(running: &Running) -> (bool, String) {
    let answer = running.ask("/readyz?verbose");
    let is_ready = answer.starts_with("HTTP/1.1 200 ");
    assert!(!is_ready || !answer.contains("0 of 0 tasks run"), "{answer}");
    (is_ready, answer)
}

/// Asks until it is ready, or is not. How long that took, in seconds.
fn until(running: &Running, is_ready: bool) -> f64 {
    let (deadline, since) = (Deadline::after(PATIENCE), Stopwatch::start());
    loop {
        let (found, answer) = asked(running);
        if found == is_ready {
            return since.elapsed().as_secs_f64();
        }
        assert!(!deadline.is_over(), "{answer}");
    }
}

#[test]
fn a_process_whose_only_broker_is_frozen_or_dead_is_not_ready_until_it_is_back() {
    let Some(mut broker) = broker::mortal("ready") else { return };
    let world = World::named(&broker.bootstrap);
    let scratch = Scratch::new("ready");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let created = program(&world, &["topics", "create", "--partitions", "2"]).output().expect("the program");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let running = Running::start(&world, &scratch);
    produce(&world, &events(0..2));
    until(&running, true);
    for harm in ["frozen", "dead"] {
        if harm == "frozen" {
            signal(&broker.dir, "STOP")
        } else {
            broker.kill()
        }
        println!("a broker that is {harm} is known after {:.1} s", until(&running, false));
        // Its membership ends meanwhile: that is no reason to be ready again.
        for _ in 0..QUESTIONS {
            let (is_ready, answer) = asked(&running);
            assert!(!is_ready, "{harm}: {answer}");
        }
        if harm == "frozen" {
            signal(&broker.dir, "CONT")
        } else {
            broker.revive()
        }
        println!("and that it is back after {:.1} s", until(&running, true));
    }
}
