//! Writes random scenarios with the answers of the hardware and of the model, for somebody else to judge.
//!
//! One JSON object per line, numbers plain. A scenario is a line of kind `scenario` (switches, tables, which pages are
//! backed), a line `page` for every 4 KiB page that holds something, `request` and `context` lines with the answers, and
//! a line `end` that counts them. Who reads it needs nothing but the table formats: `verify/witness` does.

use std::io::{self, Write};

use keywalk_contract::Table;
use keywalk_cosim as cosim;
use keywalk_model::{Beat, ContextQuery, ContextRequest, Request, TableSet};
use serde_json::{Value, json};

use crate::hardware::{self, SharedMemory};
use crate::scenario::{DRAIN_LIMIT_CYCLES, Scenario};

/// Value of `format` in the first line of a scenario.
pub const FORMAT: &str = "keywalk-scenario/1";
/// Most requests, and most requests of the context port, of a scenario: each has a tag of its own.
pub const REQUESTS_MAX: usize = 1 << 16;

/// What is asked of a scenario's engine.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Requests.
    pub requests: usize,
    /// Requests of the context port.
    pub contexts: usize,
    /// Cycles from a table read to its data; everything else about the surroundings is rough.
    pub latency_cycles: u32,
}

/// Why the answers of a scenario were not written.
#[derive(Debug, thiserror::Error)]
pub enum AnswersError {
    /// The bench: a broken bus rule, a wait that did not end.
    #[error(transparent)]
    Bench(#[from] cosim::Error),
    /// The output.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Draws the scenario of `seed` for an engine, asks the engine and the model, and writes all of it.
///
/// # Errors
/// See [`AnswersError`].
///
/// # Panics
/// When the design is no engine, or there are more requests than tags.
pub fn write(seed: u64, dut: &'static cosim::Dut, traffic: Traffic, out: &mut impl Write) -> Result<(), AnswersError> {
    let Traffic { requests, contexts, latency_cycles } = traffic;
    assert!(requests.max(contexts) <= REQUESTS_MAX, "a tag has 16 bits");
    let config = dut.config().expect("the engine was generated");
    let mut scenario = Scenario::draw(seed, &config);
    let again = format!(
        "keywalk-verify scenario --preset {} --seed {seed} --requests {requests} --contexts {contexts} --latency \
         {latency_cycles} --out FILE",
        dut.name
    );
    head(seed, dut.name, &again, &scenario, out)?;
    let requests: Vec<Request> = (0..requests).map(|tag| scenario.request(tag as u16)).collect();
    let queries: Vec<ContextRequest> = (0..contexts).map(|tag| scenario.context_request(tag as u16)).collect();

    let mut engine = scenario.engine(dut, cosim::EngineOptions::rough(latency_cycles, seed))?;
    for request in &requests {
        engine.submit(&hardware::request(request, request.tag))?;
    }
    for query in &queries {
        hardware::submit_context(&mut engine, query, query.tag)?;
    }
    engine.drain(DRAIN_LIMIT_CYCLES)?;

    let memory = scenario.shared_memory();
    let (mut answered, mut contexts_answered) = (0, 0);
    while let Some(response) = engine.pop_response() {
        line(out, &answer(&scenario, &memory, &requests[usize::from(response.tag)], &response))?;
        answered += 1;
    }
    while let Some(answer) = engine.pop_context() {
        line(out, &context_answer(&scenario, &memory, &queries[usize::from(answer.tag)], &answer))?;
        contexts_answered += 1;
    }
    line(out, &json!({"kind": "end", "requests": answered, "contexts": contexts_answered}))?;
    Ok(())
}

fn line(out: &mut impl Write, value: &Value) -> io::Result<()> {
    writeln!(out, "{value}")
}

/// Switches, tables and memory.
fn head(seed: u64, engine: &str, again: &str, scenario: &Scenario, out: &mut impl Write) -> io::Result<()> {
    let model = &scenario.model;
    let controls = model.controls;
    let backed: Vec<[u64; 2]> = scenario.memory.backed_pages().map(|pages| [pages.start, pages.end]).collect();
    line(
        out,
        &json!({
            "kind": "scenario",
            "format": FORMAT,
            "seed": seed,
            "engine": engine,
            "again": again,
            "switches": {
                "atomic_shape_check": controls.atomic_shape_check,
                "zero_entry_literal": controls.zero_entry_literal,
                "index_check": controls.index_check,
                "alignment_check": controls.alignment_check,
                "hold_mode": controls.hold_mode,
                "merge_bytes_max": controls.merge_bytes_max,
                "hold_bytes_max": controls.hold_bytes_max,
            },
            "function_map": scenario.setup.function_map,
            "table_sets": model.table_sets.iter().map(table_set).collect::<Vec<_>>(),
            "backed_pages": backed,
        }),
    )?;
    for (address, bytes) in scenario.memory.written_pages() {
        let (words, _) = bytes.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word)).enumerate().filter(|(_, word)| *word != 0);
        line(out, &json!({"kind": "page", "address": address, "words": words.collect::<Vec<_>>()}))?;
    }
    Ok(())
}

fn table_set(set: &TableSet) -> Value {
    let tables = Table::ALL.iter().map(|table| {
        let context_table = set.table(*table);
        let geometry = context_table.geometry;
        let slots = context_table.bt0.iter().enumerate();
        json!({
            "hop": geometry.hop,
            "ba_pg_sz": geometry.ba_pg_sz,
            "buf_pg_sz": geometry.buf_pg_sz,
            "entry_bytes_log2": geometry.entry_bytes_log2,
            "bt_num": geometry.bt_num,
            "object_count": geometry.object_count,
            "bt0": slots.filter_map(|(slot, base)| base.map(|base| (slot, base))).collect::<Vec<_>>(),
        })
    });
    let tables: Vec<_> = tables.collect();
    json!({"num_mpts_log2": set.num_mpts_log2, "page_shift_base": set.page_shift_base, "tables": tables})
}

/// Beats as lists: status, wire class, table, hop, segment, first, last, pa, length.
fn answer(scenario: &Scenario, memory: &SharedMemory, request: &Request, response: &cosim::Response) -> Value {
    let rtl = response.segments.iter().map(|beat| {
        json!([
            beat.status,
            beat.wire_class,
            beat.table,
            beat.hop,
            beat.segment,
            beat.first,
            beat.last,
            beat.pa,
            beat.length_bytes
        ])
    });
    let model = |beat: &Beat| {
        json!([
            beat.status.code(),
            beat.wire_class as u8,
            beat.table,
            beat.hop,
            beat.segment,
            beat.first,
            beat.last,
            beat.pa,
            beat.length
        ])
    };
    let expected = scenario.model.translate(memory, request).beats(request);
    json!({
        "kind": "request",
        "request": {
            "tag": request.tag,
            "function": request.function,
            "operation": request.operation,
            "key": request.key,
            "pd": request.pd,
            "qpn": request.qpn,
            "va": request.va,
            "length": request.length,
        },
        "rtl": rtl.collect::<Vec<_>>(),
        "model": expected.iter().map(model).collect::<Vec<_>>(),
    })
}

/// Answers as lists: status, table, hop, address.
fn context_answer(
    scenario: &Scenario,
    memory: &SharedMemory,
    request: &ContextRequest,
    answer: &cosim::ContextAnswer,
) -> Value {
    let function = request.function;
    let asked = match request.query {
        ContextQuery::Lookup { table, index } => {
            json!({"function": function, "is_walk": false, "table": table, "index": index})
        }
        ContextQuery::Walk { root, hop, ba_pg_sz, buf_pg_sz, index, count } => json!({
            "function": function,
            "is_walk": true,
            "root": root,
            "hop": hop,
            "ba_pg_sz": ba_pg_sz,
            "buf_pg_sz": buf_pg_sz,
            "index": index,
            "count": count,
        }),
    };
    let model = scenario.model.context(memory, request);
    json!({
        "kind": "context",
        "request": asked,
        "rtl": [answer.status, answer.table, answer.hop, answer.address],
        "model": [model.status.code(), model.table, model.hop, model.address],
    })
}
