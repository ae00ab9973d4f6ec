//! A data directory that cannot be used: the process says so with the code of the store, whatever it was about to read or to write.

use std::fs;

use loopwarden::exit_code;

use super::{Scratch, expect, stderr};

#[test]
fn what_cannot_be_read_or_written_in_the_data_directory_is_told_as_the_store() {
    // The note of a lane, and the policies that were in force.
    for (name, is_folder) in [("applying-0", true), ("policies", false)] {
        let scratch = Scratch::new(&format!("disk-{name}"));
        let place = scratch.0.join(name);
        if is_folder {
            fs::create_dir(&place).unwrap()
        } else {
            fs::write(&place, "").unwrap()
        }
        let dir = scratch.0.to_string_lossy();
        let output = expect(&["run", "--data-dir", &dir, "--set", "http.listen=127.0.0.1:0"], exit_code::STORE);
        assert!(stderr(&output).contains("error[E0406]: cannot "), "{name}: {}", stderr(&output));
    }
}
