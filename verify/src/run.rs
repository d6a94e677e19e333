//! Runs vectors through a design under test.

use std::path::{Path, PathBuf};
use std::time::Instant;

use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::{Operation, Status, Table};
use keywalk_model::{Beat, ContextQuery, ContextRequest, ContextResponse, Controls, Request, Segment};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::checks::{self, ContextCheck, TranslationCheck};
use crate::dut::{Dut, DutError, RtlDut};
use crate::pieces::{self, Piece};
use crate::report::{Count, Difference, FileReport};
use crate::tables::{Golden, Tables};
use crate::vector::Vector;

/// Pages of the requests that are submitted together.
const BATCH_PAGES: u64 = 1 << 16;
/// Requests that are submitted together.
const BATCH_REQUESTS: usize = 4096;
/// Longest random `merge_bytes_max`.
const MERGE_BYTES_MAX: u32 = 64 << 10;
/// Pages of a region above which it is sampled, except with the reset value of `merge_bytes_max`.
const FURTHER_PASSES_PAGES_MAX: u64 = 4096;

/// How a file is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Random parts of regions and merge limits follow from it.
    pub seed: u64,
    /// Pages of a region above which samples take the place of the whole.
    pub whole_pages_max: u64,
    /// Compares every response with the golden model's.
    pub compare_with_model: bool,
}

/// The controls of a run: atomic rows have a length of 1 and test rights only.
fn controls() -> Controls {
    Controls { atomic_shape_check: false, ..Controls::default() }
}

/// Something that was requested, to be requested again for a waveform.
#[derive(Clone, Copy, Debug)]
enum Question {
    Translation(Request),
    Context(ContextRequest),
}

/// A file that is being run.
struct Run<'a> {
    vector: &'a Vector,
    tables: &'a Tables,
    golden: Golden,
    controls: Controls,
    settings: &'a Settings,
    report: FileReport,
    /// What the first difference was about, and the answer.
    first_question: Option<(Question, Controls)>,
    progress: &'a dyn Fn(&str),
}

/// Runs a file. `progress` is told what is going on.
///
/// A design that breaks a rule or hangs fails all that is left of the file; it must not be used again.
pub fn run_file(
    path: &Path,
    vector: &Vector,
    tables: &Tables,
    dut: &mut dyn Dut,
    settings: &Settings,
    progress: &dyn Fn(&str),
) -> (FileReport, Rerun) {
    let start = Instant::now();
    let mut run = Run {
        vector,
        tables,
        golden: Golden::new(tables, controls()),
        controls: controls(),
        settings,
        report: FileReport {
            path: path.into(),
            name: vector.name.clone(),
            kernel: vector.kernel.clone(),
            checks: Count::default(),
            index_checks: Count::default(),
            pieces: Count::default(),
            model_comparisons: Count::default(),
            cycles: None,
            seconds: 0.0,
            stopped: None,
            first_difference: None,
        },
        first_question: None,
        progress,
    };
    let total = vector.xlate.len() + vector.bad.len() + vector.ctx.len();
    let total = total + vector.mtrs.iter().map(|buffer| buffer.expect.len()).sum::<usize>();
    if let Err(error) = run.all(dut) {
        run.report.stopped = Some(error.to_string());
    }
    let Run { mut report, first_question, .. } = run;
    report.checks.failed = total as u64 - report.checks.passed;
    report.seconds = start.elapsed().as_secs_f64();
    (report, Rerun(first_question))
}

impl Run<'_> {
    fn all(&mut self, dut: &mut dyn Dut) -> Result<(), DutError> {
        (self.progress)("set-up");
        dut.configure(self.tables, self.controls)?;
        let start = dut.cycles();
        let result = self.requests(dut);
        self.report.cycles = dut.cycles().zip(start).map(|(end, start)| end - start);
        result
    }

    fn requests(&mut self, dut: &mut dyn Dut) -> Result<(), DutError> {
        self.rows(dut)?;
        self.contexts(dut)?;
        let mut random = ChaCha8Rng::seed_from_u64(self.settings.seed);
        let merge_limits = [self.controls.merge_bytes_max, 0, random.random_range(1..=MERGE_BYTES_MAX)];
        for (pass, merge_bytes_max) in merge_limits.into_iter().enumerate() {
            self.controls.merge_bytes_max = merge_bytes_max;
            self.golden.set_controls(self.controls);
            dut.set_controls(self.controls)?;
            let further = if pass == 0 { u64::MAX } else { FURTHER_PASSES_PAGES_MAX };
            let whole_pages_max = self.settings.whole_pages_max.min(further);
            let with_literal = self.settings.compare_with_model;
            let pieces = pieces::of_vector(self.vector, whole_pages_max, with_literal, &mut random);
            self.pieces(dut, &pieces)?;
        }
        Ok(())
    }

    /// `xlate` and `bad` rows, mixed.
    fn rows(&mut self, dut: &mut dyn Dut) -> Result<(), DutError> {
        let rows = checks::translations(self.vector);
        for batch in batches(&rows, |row| 1 + u64::from(row.request.length >> 12)) {
            (self.progress)(&format!("{} of {} rows", self.report.checks.total(), rows.len()));
            let requests: Vec<_> = batch.iter().map(|row| row.request).collect();
            for (row, beats) in batch.iter().zip(dut.translate(&requests)?) {
                let holds = row.holds(&beats, &self.golden);
                self.report.checks.add(holds);
                if !holds {
                    self.differ_in_row(row, &beats);
                }
                self.compare(&row.place, &row.request, &beats);
            }
        }
        Ok(())
    }

    fn contexts(&mut self, dut: &mut dyn Dut) -> Result<(), DutError> {
        let rows = checks::contexts(self.vector);
        let requests: Vec<_> = rows.iter().map(|row| row.request).collect();
        for (row, response) in rows.iter().zip(dut.context(&requests)?) {
            let holds = row.holds(&response, self.tables);
            if row.is_row() {
                self.report.checks.add(holds);
            } else {
                self.report.index_checks.add(holds);
            }
            if !holds {
                self.differ_in_context(row, row.expectation(), &response);
            }
            if self.settings.compare_with_model {
                let golden = self.golden.context(&row.request);
                self.report.model_comparisons.add(golden == response);
                if golden != response {
                    self.differ_in_context(row, format!("as the golden model: {}", context_answer(&golden)), &response);
                }
            }
        }
        Ok(())
    }

    fn pieces(&mut self, dut: &mut dyn Dut, pieces: &[Piece<'_>]) -> Result<(), DutError> {
        let mut done = 0;
        for batch in batches(pieces, |piece| piece.pages) {
            let merge = self.controls.merge_bytes_max;
            (self.progress)(&format!("{done} of {} pieces, merged up to {merge} bytes", pieces.len()));
            let requests: Vec<_> = batch.iter().map(|piece| piece.request).collect();
            for (piece, beats) in batch.iter().zip(dut.translate(&requests)?) {
                match piece.segments(merge) {
                    Ok(Some(expected)) => {
                        let difference = first_difference(&expected, &beats);
                        self.report.pieces.add(difference.is_none());
                        if let Some(number) = difference {
                            self.differ_in_piece(piece, &expected, &beats, number);
                        }
                    }
                    Ok(None) => {}
                    Err(what) => {
                        self.report.pieces.add(false);
                        let got = beats_text(&beats, 0);
                        self.differ(&piece.place, Question::Translation(piece.request), what, got, None);
                    }
                }
                self.compare(&piece.place, &piece.request, &beats);
            }
            done += batch.len();
        }
        Ok(())
    }

    /// Compares a response with the golden model's.
    fn compare(&mut self, place: &str, request: &Request, beats: &[Beat]) {
        if !self.settings.compare_with_model {
            return;
        }
        let golden = self.golden.translate(request).beats(request);
        let is_same = golden == beats;
        self.report.model_comparisons.add(is_same);
        if !is_same {
            let number = (0..).zip(&golden).zip(beats).find(|((_, left), right)| left != right);
            let number = number.map_or(golden.len().min(beats.len()), |((number, _), _)| number);
            let expected = format!("as the golden model: {}", beats_text(&golden, number));
            self.differ(place, Question::Translation(*request), expected, beats_text(beats, number), None);
        }
    }

    fn differ_in_row(&mut self, row: &TranslationCheck, beats: &[Beat]) {
        let got = beats_text(beats, 0);
        self.differ(&row.place, Question::Translation(row.request), row.expectation(), got, None);
    }

    fn differ_in_context(&mut self, row: &ContextCheck, expected: String, response: &ContextResponse) {
        let mut got = context_answer(response);
        if row.is_row()
            && response.status == Status::Ok
            && matches!(row.request.query, ContextQuery::Lookup { .. })
            && let Ok(stored) = self.tables.memory.read_u64(response.address)
        {
            got += &format!(", where {stored:#018x} is stored");
        }
        self.differ(&row.place, Question::Context(row.request), expected, got, None);
    }

    fn differ_in_piece(&mut self, piece: &Piece<'_>, expected: &[Segment], beats: &[Beat], number: usize) {
        let offset: u64 = expected.iter().take(number).map(|segment| u64::from(segment.length_bytes)).sum();
        let merge = self.controls.merge_bytes_max;
        let wanted = match expected.get(number) {
            Some(segment) => format!("pa {:#x}, {} bytes", segment.pa, segment.length_bytes),
            None => "none".into(),
        };
        let wanted = format!("segment {number} of {}: {wanted} (merged up to {merge} bytes)", expected.len());
        // Behind the last segment there is no byte to be walked to.
        let offset = offset.min(u64::from(piece.request.length) - 1);
        let va = piece.request.va + offset;
        let question = Question::Translation(piece.request);
        self.differ(&piece.place, question, wanted, beats_text(beats, number), Some(va));
    }

    /// Keeps the first difference. The walk that is shown is that of the byte at `va`, or of the whole request.
    fn differ(&mut self, place: &str, question: Question, expected: String, got: String, va: Option<u64>) {
        if self.report.first_difference.is_some() {
            return;
        }
        let (request, mut walk) = match question {
            Question::Translation(request) => {
                let walked = va.map_or(request, |va| Request { va, length: 1, ..request });
                (request_text(&request), self.golden.explain(&walked).1.lines())
            }
            Question::Context(request) => {
                (context_request_text(&request), self.golden.explain_context(&request).1.lines())
            }
        };
        if let Some(va) = va {
            walk.insert(0, format!("walk of the byte at va {va:#x}:"));
        }
        self.report.first_difference =
            Some(Difference { place: place.into(), request, expected, got, walk, trace: None });
        self.first_question = Some((question, self.controls));
    }
}

/// Cuts requests into batches by the pages that they touch.
fn batches<T>(requests: &[T], pages: impl Fn(&T) -> u64) -> Vec<&[T]> {
    let mut batches = Vec::new();
    let mut start = 0;
    let mut sum = 0;
    for (position, request) in requests.iter().enumerate() {
        let more = pages(request);
        if position > start && (sum + more > BATCH_PAGES || position - start == BATCH_REQUESTS) {
            batches.push(&requests[start..position]);
            (start, sum) = (position, 0);
        }
        sum += more;
    }
    batches.push(&requests[start..]);
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Number of the first segment that is not as expected.
fn first_difference(expected: &[Segment], beats: &[Beat]) -> Option<usize> {
    let is_same = |number: usize| {
        let (Some(segment), Some(beat)) = (expected.get(number), beats.get(number)) else {
            return false;
        };
        beat.status == Status::Ok
            && (beat.pa, beat.length) == (segment.pa, segment.length_bytes)
            && beat.segment as usize == number
            && beat.first == (number == 0)
            && beat.last == (number + 1 == expected.len())
    };
    (0..expected.len().max(beats.len())).find(|number| !is_same(*number))
}

/// A response around one of its beats.
fn beats_text(beats: &[Beat], number: usize) -> String {
    let number = number.min(beats.len().saturating_sub(1));
    let Some(beat) = beats.get(number) else {
        return "no beat".into();
    };
    let answer = match beat.status {
        Status::Ok => format!("ok: pa {:#x}, {} bytes", beat.pa, beat.length),
        status => {
            let mut text = format!("status {}, wire class {}", status.name(), beat.wire_class.name());
            if status.names_a_table() {
                text += &format!(", table {}, hop {}", table_text(beat.table), beat.hop);
            }
            text
        }
    };
    if beats.len() == 1 && beat.segment == 0 && beat.first && beat.last {
        return answer;
    }
    let ends = [(beat.first, " first"), (beat.last, " last")];
    let ends: String = ends.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| *name).collect();
    format!("beat {number} of {} (segment {}{ends}): {answer}", beats.len(), beat.segment)
}

fn table_text(code: u8) -> &'static str {
    match Table::from_code(code) {
        Some(table) => table.name(),
        None if code == TABLE_CODE_MTR => "mtr",
        None => "undefined",
    }
}

fn context_answer(response: &ContextResponse) -> String {
    match response.status {
        Status::Ok => format!("ok: address {:#x}", response.address),
        status => {
            format!("status {}, table {}, hop {}", status.name(), table_text(response.table), response.hop)
        }
    }
}

/// A request, for people.
#[must_use]
pub fn request_text(request: &Request) -> String {
    let operation = Operation::from_code(request.operation).map_or("undefined operation", Operation::name);
    let Request { key, va, length, pd, qpn, .. } = request;
    format!("{operation} key {key:#010x} va {va:#x} length {length} pd {pd:#x} qpn {qpn:#x}")
}

fn context_request_text(request: &ContextRequest) -> String {
    match request.query {
        ContextQuery::Lookup { table, index } => format!("context lookup, table {} object {index}", table_text(table)),
        ContextQuery::Walk { root, hop, ba_pg_sz, buf_pg_sz, index, count } => format!(
            "queue-buffer walk, root {root:#x} hop {hop} ba_pg_sz {ba_pg_sz} buf_pg_sz {buf_pg_sz} page {index} of {count}"
        ),
    }
}

/// The request that the first difference was about, if there was one.
#[derive(Debug)]
pub struct Rerun(Option<(Question, Controls)>);

impl Rerun {
    /// Requests once more what failed, alone, on a fresh engine, and writes a waveform into `directory`. Says where, and
    /// whether the answer is another one than the golden model's; `None` where nothing has failed.
    ///
    /// # Errors
    /// [`DutError`]: a build without tracing, or an engine that breaks a rule (the waveform then ends there).
    pub fn trace(
        &self,
        directory: &Path,
        name: &str,
        tables: &Tables,
        dut: &mut RtlDut,
    ) -> Result<Option<(PathBuf, bool)>, DutError> {
        let Some((question, controls)) = self.0 else {
            return Ok(None);
        };
        // The name comes from a file that is not trusted.
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
        let name: String = name.chars().map(plain).take(100).collect();
        let path = directory.join(format!("{name}.vcd"));
        let golden = Golden::new(tables, controls);
        dut.configure(tables, controls)?;
        dut.start_trace(&path)?;
        let differs = match question {
            Question::Translation(request) => {
                dut.translate(&[request])? != vec![golden.translate(&request).beats(&request)]
            }
            Question::Context(request) => dut.context(&[request])? != vec![golden.context(&request)],
        };
        Ok(Some((path, differs)))
    }
}
