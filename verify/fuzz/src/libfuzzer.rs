//! libFuzzer around a target: `KEYWALK_FUZZ_TARGET` names it. `verify/fuzz/run.sh` builds and runs this.

#![no_main]

use std::sync::OnceLock;

use keywalk_fuzz::Target;

static TARGET: OnceLock<&Target> = OnceLock::new();

fn chosen() -> &'static Target {
    let name = std::env::var("KEYWALK_FUZZ_TARGET").unwrap_or_default();
    keywalk_fuzz::target(&name)
        .unwrap_or_else(|| panic!("KEYWALK_FUZZ_TARGET is `{name}`; `keywalk-fuzz list` lists the targets"))
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (TARGET.get_or_init(chosen).run)(input);
});
