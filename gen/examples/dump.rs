//! Writes the raw Verilog of the default configuration into a directory.
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    std::fs::create_dir_all(&dir).unwrap();
    for (name, text) in keywalk_gen::generate(&Default::default()).unwrap().files {
        std::fs::write(format!("{dir}/{name}"), text).unwrap();
    }
}
