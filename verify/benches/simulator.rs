//! A stream of hits through the bench of the engine, and the same inputs through a bare C++ loop.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use keywalk_verify::bench::Settings;
use keywalk_verify::bench::rates::Simulation;

fn simulator(criterion: &mut Criterion) {
    let settings = Settings::new("default", false).expect("the default engine is always built");
    let simulation = Simulation::record(&settings).expect("the stream runs");
    let mut group = criterion.benchmark_group("simulator");
    group.throughput(Throughput::Elements(simulation.cycles())).sample_size(10);
    group.bench_function("bench", |bencher| {
        bencher.iter_custom(|tries| (0..tries).map(|_| simulation.through_bench().expect("the stream runs")).sum());
    });
    group.bench_function("bare C++ loop", |bencher| {
        bencher.iter_custom(|tries| (0..tries).map(|_| simulation.through_bare_loop()).sum());
    });
    group.finish();
}

criterion_group!(benches, simulator);
criterion_main!(benches);
