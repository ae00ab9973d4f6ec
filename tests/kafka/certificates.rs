//! The real binary on a broker that knows its clients by their certificates, while these are replaced.

use std::fs;

use crate::oauth::Run;
use crate::secured::{CERTIFIED_USER, Listener, RENEWED_USER, secured};
use crate::security::{documented, program, set, translated, world};

#[test]
fn a_certificate_is_replaced_without_a_restart_and_one_that_is_not_let_in_changes_nothing() {
    let Some(secured) = secured() else { return };
    let world = world(secured);
    let [of_former, of_next] = [CERTIFIED_USER, RENEWED_USER].map(|user| translated(&documented(), user, &world.options));
    secured.grant(&[of_former.clone(), of_next].concat());
    let (certificate, key) = (secured.file("rotated.pem"), secured.file("rotated.key"));
    let place = |name: &str| {
        for (from, to) in [(format!("{name}.pem"), &certificate), (format!("{name}.key"), &key)] {
            fs::copy(secured.file(&from), format!("{to}.new")).expect("copied");
            fs::rename(format!("{to}.new"), to).expect("replaced");
        }
    };
    place("client");
    let mut command = program(&secured.address(Listener::Mutual), &world.options, &["run"]);
    set(&mut command, &[("ca_file", &secured.file("ca.pem")), ("cert_file", &certificate), ("key_file", &key)]);
    let mut run = Run::start("rotated", command);
    run.finds(&world, "by-the-first");
    // Of an authority that the broker does not trust.
    place("stranger");
    run.until("a word of each lane about the stranger", |run| run.log().matches("the former certificate goes on").count() >= 2);
    run.finds(&world, "in-spite-of-the-stranger");
    place("renewed");
    run.until("new clients of both lanes", |run| run.log().matches("joined the group anew").count() >= 2);
    // From here on the former identity may do nothing.
    secured.revoke(&of_former);
    run.finds(&world, "by-the-next");
    let _ = run.stop(&world);
}
