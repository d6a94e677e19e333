//! Records: named bundles of signals, declared once with [`record!`](crate::record!).

use super::builder::{Builder, Instance, Register};
use super::signal::{Signal, concat};

/// A record type with its element type replaced. Fields keep their order of declaration.
pub trait Record<T>: Sized + Clone {
    /// The same record with other elements.
    type With<U: Clone>: Record<U>;
    /// Replaces every element, in order; the function is also told the field's name.
    fn map<U: Clone>(self, function: &mut dyn FnMut(&'static str, T) -> U) -> Self::With<U>;
    /// All elements in order, with names.
    fn list(self) -> Vec<(&'static str, T)>;
}

/// Declares a record generic over its elements: `Name<Signal>` is a bundle, `Name<u32>` its widths.
///
/// `record! { /// Doc. pub struct Name(config) { /// Doc. field: width_expression, ... } }` also yields
/// `Name::widths(&Config)`.
#[macro_export]
macro_rules! record {
    ($(#[$outer:meta])* $visibility:vis struct $name:ident($config:ident) {
        $($(#[$inner:meta])* $field:ident: $width:expr,)*
    }) => {
        $(#[$outer])*
        #[derive(Clone, Copy)]
        $visibility struct $name<T> { $($(#[$inner])* pub $field: T,)* }

        impl $name<u32> {
            /// Width of every field in bits.
            #[allow(dead_code, reason = "a record that is neither port nor memory word needs no widths")]
            #[must_use]
            pub fn widths($config: &keywalk_contract::Config) -> Self {
                let _ = $config;
                Self { $($field: $width,)* }
            }
        }

        impl<T: Clone> $crate::prim::Record<T> for $name<T> {
            type With<U: Clone> = $name<U>;
            fn map<U: Clone>(self, function: &mut dyn FnMut(&'static str, T) -> U) -> $name<U> {
                $name { $($field: function(stringify!($field), self.$field),)* }
            }
            fn list(self) -> Vec<(&'static str, T)> {
                vec![$((stringify!($field), self.$field),)*]
            }
        }
    };
}

impl<T, A: Record<T>, B: Record<T>> Record<T> for (A, B) {
    type With<U: Clone> = (A::With<U>, B::With<U>);
    fn map<U: Clone>(self, function: &mut dyn FnMut(&'static str, T) -> U) -> Self::With<U> {
        (self.0.map(function), self.1.map(function))
    }
    fn list(self) -> Vec<(&'static str, T)> {
        self.0.list().into_iter().chain(self.1.list()).collect()
    }
}

/// Input ports `<channel>_<field>` of the module.
pub fn input_channel<'a, R>(builder: &'a Builder<'a>, channel: &str, widths: R) -> R::With<Signal<'a>>
where
    R: Record<u32>,
{
    widths.map(&mut |name, width| builder.input(&format!("{channel}_{name}"), width))
}

/// Output ports `<channel>_<field>` of the module.
pub fn output_channel<'a, R: Record<Signal<'a>>>(builder: &'a Builder<'a>, channel: &str, record: R) {
    for (name, signal) in record.list() {
        builder.output(&format!("{channel}_{name}"), signal);
    }
}

/// Drives the input ports `<channel>_<field>` of an instance.
pub fn drive_channel<'a, R: Record<Signal<'a>>>(instance: &Instance<'a>, channel: &str, record: R) {
    for (name, signal) in record.list() {
        instance.drive(&format!("{channel}_{name}"), signal);
    }
}

impl<'a> Instance<'a> {
    /// Values of the output ports `<channel>_<field>`.
    pub fn channel<R: Record<u32>>(&self, channel: &str, widths: R) -> R::With<Signal<'a>> {
        widths.map(&mut |name, width| self.output(&format!("{channel}_{name}"), width))
    }
}

/// Packs signals into lanes of 128 bits, the first signal lowest; the last lane may be narrower.
#[must_use]
pub fn concat_fields<'a>(signals: &[Signal<'a>]) -> Vec<Signal<'a>> {
    let mut lanes = Vec::new();
    let mut parts: Vec<Signal<'a>> = Vec::new();
    let mut filled = 0;
    for &signal in signals {
        let mut taken = 0;
        while taken < signal.width() {
            let width = (signal.width() - taken).min(128 - filled);
            parts.push(signal.bits(taken + width - 1, taken));
            taken += width;
            filled += width;
            if filled == 128 {
                parts.reverse();
                lanes.push(concat(&parts));
                parts.clear();
                filled = 0;
            }
        }
    }
    if !parts.is_empty() {
        parts.reverse();
        lanes.push(concat(&parts));
    }
    lanes
}

/// Bits `low..low + width` of lanes made by [`concat_fields`], at most 128.
#[must_use]
pub fn bit_range<'a>(lanes: &[Signal<'a>], low: u32, width: u32) -> Signal<'a> {
    let mut parts = Vec::new();
    let mut position = low;
    while position < low + width {
        let start = position % 128;
        let part = (low + width - position).min(128 - start);
        parts.push(lanes[(position / 128) as usize].bits(start + part - 1, start));
        position += part;
    }
    parts.reverse();
    concat(&parts)
}

/// Cuts lanes made by [`concat_fields`] into signals of the given widths.
#[must_use]
pub fn split_fields<'a>(lanes: &[Signal<'a>], widths: &[u32]) -> Vec<Signal<'a>> {
    let mut position = 0;
    widths
        .iter()
        .map(|&width| {
            let signal = bit_range(lanes, position, width);
            position += width;
            signal
        })
        .collect()
}

/// Every field one cycle later, in registers `<prefix>_<field>` that are not reset.
#[must_use]
pub fn delay_record<'a, R: Record<Signal<'a>, With<Signal<'a>> = R>>(record: R, prefix: &str) -> R {
    record.map(&mut |name, signal| signal.delay(&format!("{prefix}_{name}")))
}

/// `select ? when_true : when_false`, field by field.
#[must_use]
pub fn mux_record<'a, R>(select: Signal<'a>, when_true: R, when_false: R) -> R
where
    R: Record<Signal<'a>, With<Signal<'a>> = R>,
{
    let mut others = when_false.list().into_iter();
    when_true.map(&mut |_, signal| {
        let (_, other) = others.next().expect("both records have the same fields");
        select.mux(signal, other)
    })
}

/// Every field kept from the last cycle in which `enable` was set, in registers `<prefix>_<field>` that are not reset.
#[must_use]
pub fn hold_record<'a, R: Record<Signal<'a>, With<Signal<'a>> = R>>(record: R, prefix: &str, enable: Signal<'a>) -> R {
    record.map(&mut |name, signal| signal.hold(&format!("{prefix}_{name}"), enable))
}

/// A record of zeros.
#[must_use]
pub fn zero_record<'a, R: Record<u32>>(builder: &'a Builder<'a>, widths: R) -> R::With<Signal<'a>> {
    widths.map(&mut |_, width| builder.literal(0, width))
}

/// Registers `<prefix>_<field>` that are not reset.
#[must_use]
pub fn register_record<'a, R: Record<u32>>(builder: &'a Builder<'a>, prefix: &str, widths: R) -> R::With<Register<'a>> {
    widths.map(&mut |name, width| builder.register(&format!("{prefix}_{name}"), width))
}

/// Drives the next values of a record of registers.
pub fn drive_record<'a, R, V>(registers: R, next: V)
where
    R: Record<Register<'a>>,
    V: Record<Signal<'a>>,
{
    for ((_, register), (_, signal)) in registers.list().into_iter().zip(next.list()) {
        register.next(signal);
    }
}
