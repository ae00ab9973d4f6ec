//! The golden cases: what five reference systems answer, and our own.

use loopwarden::cli::cases::parse;
use loopwarden::cli::cases::run;

fn check_file(path: &std::path::Path) -> (usize, Vec<String>) {
    let text = std::fs::read_to_string(path).unwrap();
    let cases = parse(&path.display().to_string(), &text).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        for mismatch in run(case) {
            wrong.push(format!(
                "{}/{} event {:?}\n  expected {}\n  got      {}",
                case.profile, case.name, mismatch.event, mismatch.expected, mismatch.got
            ));
        }
    }
    (cases.len(), wrong)
}

#[test]
fn every_shared_reference_case_is_answered_as_the_reference_answers() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases");
    if !folder.is_dir() {
        println!("skipped: ../shared/cases is absent");
        return;
    }
    let mut total = 0;
    let mut wrong = Vec::new();
    for profile in ["hackeurope", "attocode", "cortex", "rockbot", "ironcurtain"] {
        let (count, mismatches) = check_file(&folder.join(format!("{profile}.jsonl")));
        total += count;
        wrong.extend(mismatches);
    }
    assert!(wrong.is_empty(), "{} mismatches\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(total, 96);
}
