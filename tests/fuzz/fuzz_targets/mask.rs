//! The hand-written mask pass gives what the expressions give one after the other.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use loopwarden::{identity::MaskRule, identity::MaskSet, identity::SHIPPED_MASKS};

static MASKS: LazyLock<(MaskSet, MaskSet)> = LazyLock::new(|| {
    let rules = SHIPPED_MASKS.map(|(pattern, replacement)| MaskRule { pattern: pattern.into(), replacement: replacement.into() });
    (MaskSet::new(&rules).expect("shipped"), MaskSet::through_regex(&rules).expect("shipped"))
});

fuzz_target!(|text: &str| {
    let (pass, regexes) = &*MASKS;
    assert_eq!(pass.apply(text), regexes.apply(text));
});
