//! Verilog of the default configuration, from the hardware description to text.

use criterion::{Criterion, criterion_group, criterion_main};
use keywalk_contract::Config;

fn generator(criterion: &mut Criterion) {
    let config = Config::default();
    let mut group = criterion.benchmark_group("generator");
    group.sample_size(20);
    group.bench_function("default configuration", |bencher| {
        bencher.iter(|| keywalk_gen::generate(&config).expect("the default configuration is legal"));
    });
    group.finish();
}

criterion_group!(benches, generator);
criterion_main!(benches);
