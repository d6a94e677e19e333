//! Single-page translations of the golden model: an MPT behind one hop, a page table of two.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use keywalk_verify::bench::rates;

fn model(criterion: &mut Criterion) {
    let (scene, requests) = rates::model_scene().expect("the tables are built");
    let mut group = criterion.benchmark_group("model");
    group.throughput(Throughput::Elements(requests.len() as u64)).sample_size(20);
    group.bench_function("translations", |bencher| {
        bencher.iter(|| rates::translate_all(&scene, black_box(&requests)));
    });
    group.finish();
}

criterion_group!(benches, model);
criterion_main!(benches);
