//! The only unsafe code: the C functions of the models and the memory of their ports.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Mutex, PoisonError};

use crate::bits;
use crate::dut::Dut;

/// The C functions of a design, from the generated shim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    pub new: unsafe extern "C" fn(c_int) -> *mut c_void,
    pub eval: unsafe extern "C" fn(*mut c_void),
    pub free: unsafe extern "C" fn(*mut c_void),
    pub port: unsafe extern "C" fn(*mut c_void, c_uint) -> *mut c_void,
    pub trace_open: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    pub trace_dump: unsafe extern "C" fn(*mut c_void, c_ulonglong),
    pub coverage_write: Option<unsafe extern "C" fn(*mut c_void, *const c_char)>,
}

/// An input of the C++ loop that replays recorded values.
#[repr(C)]
struct ReplayInput {
    target: *mut c_void,
    bytes: u32,
    words: u32,
}

unsafe extern "C" {
    /// Sets inputs and toggles the clock, cycle by cycle.
    fn keywalk_replay(
        eval: unsafe extern "C" fn(*mut c_void),
        model: *mut c_void,
        clock: *mut u8,
        inputs: *const ReplayInput,
        input_count: usize,
        values: *const u32,
        cycles: usize,
    );
}

/// Where the value of a port is stored, by its width: Verilator takes 8, 16, 32 or 64 bits, or an array of words.
#[derive(Clone, Copy)]
enum Storage {
    Bits8(NonNull<u8>),
    Bits16(NonNull<u16>),
    Bits32(NonNull<u32>),
    Bits64(NonNull<u64>),
    Words(NonNull<u32>, usize),
}

/// A model and the addresses of its ports. Neither `Send` nor `Sync`, because it holds pointers.
pub(crate) struct RawModel {
    functions: &'static Functions,
    model: NonNull<c_void>,
    ports: Box<[Storage]>,
}

/// Verilator's source of random initial values is reseeded by every creation, so creations must not overlap.
static CREATION: Mutex<()> = Mutex::new(());

impl RawModel {
    /// Creates a model whose uninitialised state follows from `seed`, 1 to 2^31 - 1.
    pub fn new(dut: &'static Dut, seed: c_int) -> Self {
        let functions = &dut.functions;
        let guard = CREATION.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the functions of a `Dut` come from the build script and belong together; `new` has no precondition.
        let model = unsafe { (functions.new)(seed) };
        drop(guard);
        let model = NonNull::new(model).expect("C++'s new does not return null");
        let ports = dut.ports.iter().enumerate().map(|(index, port)| {
            // SAFETY: `model` was created by the same design and is alive.
            let address = unsafe { (functions.port)(model.as_ptr(), index as c_uint) };
            let address = NonNull::new(address).expect("the shim knows every port of the table");
            match port.width {
                0..=8 => Storage::Bits8(address.cast()),
                9..=16 => Storage::Bits16(address.cast()),
                17..=32 => Storage::Bits32(address.cast()),
                33..=64 => Storage::Bits64(address.cast()),
                width => Storage::Words(address.cast(), bits::words(width)),
            }
        });
        let ports = ports.collect();
        Self { functions, model, ports }
    }

    /// Lets the model react to its inputs.
    #[inline]
    pub fn eval(&mut self) {
        // SAFETY: the model is alive, and `&mut self` keeps every borrow of its ports away.
        unsafe { (self.functions.eval)(self.model.as_ptr()) }
    }

    /// Value of a port of at most 64 bits; of a wider one, its low 64 bits.
    #[inline]
    pub fn read(&self, port: usize) -> u64 {
        // SAFETY: each pointer was given by the model, which is alive, for a member of exactly this type (the width
        // decides the type in Verilator as it does in `Storage`); nothing writes while `&self` is held.
        unsafe {
            match self.ports[port] {
                Storage::Bits8(pointer) => u64::from(pointer.read()),
                Storage::Bits16(pointer) => u64::from(pointer.read()),
                Storage::Bits32(pointer) => u64::from(pointer.read()),
                Storage::Bits64(pointer) => pointer.read(),
                Storage::Words(pointer, count) => bits::get(slice::from_raw_parts(pointer.as_ptr(), count), 0, 64),
            }
        }
    }

    /// Stores a value that fits into the port.
    #[inline]
    pub fn write(&mut self, port: usize, value: u64) {
        // SAFETY: as in `read`; `&mut self` makes the access exclusive.
        unsafe {
            match self.ports[port] {
                Storage::Bits8(pointer) => pointer.write(value as u8),
                Storage::Bits16(pointer) => pointer.write(value as u16),
                Storage::Bits32(pointer) => pointer.write(value as u32),
                Storage::Bits64(pointer) => pointer.write(value),
                Storage::Words(pointer, count) => {
                    let words = slice::from_raw_parts_mut(pointer.as_ptr(), count);
                    words.fill(0);
                    bits::set(words, 0, 64, value);
                }
            }
        }
    }

    /// The words of a port of more than 64 bits.
    #[inline]
    pub fn words(&self, port: usize) -> Option<&[u32]> {
        match self.ports[port] {
            // SAFETY: as in `read`; the array has `count` words and the borrow of `self` keeps `eval` away.
            Storage::Words(pointer, count) => Some(unsafe { slice::from_raw_parts(pointer.as_ptr(), count) }),
            _ => None,
        }
    }

    /// The words of a port of more than 64 bits, to be written. Bits beyond the width must stay zero.
    #[inline]
    pub fn words_mut(&mut self, port: usize) -> Option<&mut [u32]> {
        match self.ports[port] {
            // SAFETY: as in `words`; `&mut self` makes the access exclusive.
            Storage::Words(pointer, count) => Some(unsafe { slice::from_raw_parts_mut(pointer.as_ptr(), count) }),
            _ => None,
        }
    }

    /// Runs clock cycles with recorded inputs in C++. `values` holds, cycle by cycle, the words of each of `inputs`.
    ///
    /// # Panics
    /// When the clock is wider than a bit, or `values` does not hold whole cycles.
    pub fn replay(&mut self, clock: usize, inputs: &[usize], values: &[u32]) {
        let Storage::Bits8(clock) = self.ports[clock] else { panic!("a clock has one bit") };
        let inputs: Vec<ReplayInput> = inputs
            .iter()
            .map(|port| {
                let (target, bytes, words) = match self.ports[*port] {
                    Storage::Bits8(pointer) => (pointer.as_ptr().cast(), 1, 1),
                    Storage::Bits16(pointer) => (pointer.as_ptr().cast(), 2, 1),
                    Storage::Bits32(pointer) => (pointer.as_ptr().cast(), 4, 1),
                    Storage::Bits64(pointer) => (pointer.as_ptr().cast(), 8, 2),
                    Storage::Words(pointer, count) => (pointer.as_ptr().cast(), 4 * count as u32, count as u32),
                };
                ReplayInput { target, bytes, words }
            })
            .collect();
        let words: usize = inputs.iter().map(|input| input.words as usize).sum();
        assert!(words > 0 && values.len().is_multiple_of(words), "the recording is of this design");
        let cycles = values.len() / words;
        // SAFETY: the model is alive and `&mut self` makes the access exclusive; every target is a port of the model with
        // so many bytes (see `read`), and `values` holds `cycles` times the words of all inputs.
        unsafe {
            let (eval, model) = (self.functions.eval, self.model.as_ptr());
            keywalk_replay(eval, model, clock.as_ptr(), inputs.as_ptr(), inputs.len(), values.as_ptr(), cycles);
        }
    }

    /// Begins a trace file. False where it cannot be opened or tracing was not built.
    pub fn trace_open(&mut self, path: &CStr) -> bool {
        // SAFETY: the model is alive and the path is a string with a terminator.
        unsafe { (self.functions.trace_open)(self.model.as_ptr(), path.as_ptr()) != 0 }
    }

    /// Adds the present values to the open trace file.
    pub fn trace_dump(&mut self, time: u64) {
        // SAFETY: the model is alive; the caller dumps only after a successful `trace_open`.
        unsafe { (self.functions.trace_dump)(self.model.as_ptr(), time) }
    }
}

impl RawModel {
    /// Writes what Verilator has counted to a file. False where the design was compiled without coverage.
    pub fn coverage_write(&self, path: &CStr) -> bool {
        match self.functions.coverage_write {
            // SAFETY: the model is alive and the path is a string with a terminator.
            Some(write) => unsafe {
                write(self.model.as_ptr(), path.as_ptr());
                true
            },
            None => false,
        }
    }
}

impl Drop for RawModel {
    fn drop(&mut self) {
        // SAFETY: the model is alive, and nothing uses it or its ports afterwards.
        unsafe { (self.functions.free)(self.model.as_ptr()) }
    }
}
