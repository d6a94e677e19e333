//! Modules under construction.

use super::signal::Signal;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use typed_arena::Arena;

/// All modules of one engine.
pub struct Design<'a> {
    context: &'a kaze::Context<'a>,
    arena: &'a Arena<Builder<'a>>,
    modules: RefCell<Vec<&'a Builder<'a>>>,
}

impl<'a> Design<'a> {
    /// An empty design that lives in `context` and `arena`.
    #[must_use]
    pub fn new(context: &'a kaze::Context<'a>, arena: &'a Arena<Builder<'a>>) -> Self {
        Self { context, arena, modules: RefCell::default() }
    }

    /// Starts a module.
    ///
    /// # Panics
    /// When a module of that name exists.
    #[must_use]
    pub fn module(&self, name: &str) -> &'a Builder<'a> {
        let builder = self.arena.alloc(Builder {
            module: self.context.module(name),
            name: name.into(),
            next_node: Cell::new(0),
            names: RefCell::default(),
        });
        self.modules.borrow_mut().push(builder);
        builder
    }

    /// Whether a module of that name was started: for modules that several blocks share.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.modules.borrow().iter().any(|module| module.name == name)
    }

    /// All modules in order of creation.
    #[must_use]
    pub fn modules(&self) -> Vec<&'a Builder<'a>> {
        self.modules.borrow().clone()
    }
}

/// One module under construction.
pub struct Builder<'a> {
    pub(super) module: &'a kaze::Module<'a>,
    name: String,
    next_node: Cell<u32>,
    names: RefCell<BTreeSet<String>>,
}

impl<'a> Builder<'a> {
    /// Name of the module.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kaze module, for the generator.
    pub fn kaze(&self) -> &'a kaze::Module<'a> {
        self.module
    }

    fn claim(&self, name: &str) {
        assert!(self.names.borrow_mut().insert(name.into()), "module {} has two things called {name}", self.name);
    }

    fn wrap(&'a self, node: &'a kaze::Signal<'a>) -> Signal<'a> {
        Signal { builder: self, node, literal: None }
    }

    fn expose_as(&'a self, tag: char, name: &str, node: &'a kaze::Signal<'a>) -> Signal<'a> {
        let number = self.next_node.get();
        self.next_node.set(number + 1);
        self.module.output(format!("N{number:06}{tag}_{name}"), node);
        self.wrap(node)
    }

    pub(super) fn expose(&'a self, kind: &str, node: &'a kaze::Signal<'a>) -> Signal<'a> {
        self.expose_as('u', kind, node)
    }

    pub(super) fn expose_named(&'a self, name: &str, node: &'a kaze::Signal<'a>) -> Signal<'a> {
        self.expose_as('n', name, node)
    }

    /// A constant of 1 to 128 bits.
    ///
    /// # Panics
    /// When the value does not fit.
    #[must_use]
    pub fn literal(&'a self, value: u128, width: u32) -> Signal<'a> {
        Signal { builder: self, node: self.module.lit(value, width), literal: Some(value) }
    }

    /// The constant 0 or 1 in one bit.
    #[must_use]
    pub fn flag(&'a self, value: bool) -> Signal<'a> {
        self.literal(value.into(), 1)
    }

    /// An input port.
    #[must_use]
    pub fn input(&'a self, name: &str, width: u32) -> Signal<'a> {
        self.claim(name);
        self.wrap(self.module.input(name, width))
    }

    /// An output port.
    pub fn output(&'a self, name: &str, signal: Signal<'a>) {
        self.claim(name);
        self.module.output(name, signal.node);
    }

    /// A register that keeps its value through reset. Names are unique within a module.
    #[must_use]
    pub fn register(&'a self, name: &str, width: u32) -> Register<'a> {
        self.claim(name);
        let register = self.module.reg(name, width);
        Register { value: self.wrap(register.value), register }
    }

    /// A register with a value after reset.
    #[must_use]
    pub fn register_reset(&'a self, name: &str, width: u32, reset: u128) -> Register<'a> {
        let register = self.register(name, width);
        register.register.default_value(reset);
        register
    }

    /// A wire that is driven later.
    #[must_use]
    pub fn forward(&'a self, name: &str, width: u32) -> Forward<'a> {
        self.claim(name);
        Forward { value: self.wrap(self.module.input(format!("w__{name}"), width)), name: name.into() }
    }

    /// An instance of another module.
    #[must_use]
    pub fn instance(&'a self, name: &str, module: &str) -> Instance<'a> {
        self.claim(name);
        assert!(!name.contains("__") && !module.contains("__"), "double underscores separate port names");
        Instance { builder: self, prefix: format!("{module}__{name}") }
    }

    pub(super) fn memory(&'a self, name: &str, address_bits: u32, width: u32) -> &'a kaze::Mem<'a> {
        self.claim(name);
        self.module.mem(name, address_bits, width)
    }
}

/// A register; every register must be given its next value once.
#[derive(Clone, Copy)]
pub struct Register<'a> {
    /// Its present value.
    pub value: Signal<'a>,
    register: &'a kaze::Register<'a>,
}

impl<'a> Register<'a> {
    /// Drives the next value.
    pub fn next(&self, next: Signal<'a>) {
        self.register.drive_next(next.node);
    }

    /// Drives the next value where `enable` is set; the value stays otherwise.
    pub fn next_if(&self, enable: Signal<'a>, next: Signal<'a>) {
        self.next(enable.mux(next, self.value));
    }
}

/// A wire that is used before it is driven; it must be driven once.
pub struct Forward<'a> {
    /// The value.
    pub value: Signal<'a>,
    name: String,
}

impl<'a> Forward<'a> {
    /// Drives the wire.
    pub fn drive(&self, signal: Signal<'a>) {
        assert_eq!(self.value.width(), signal.width(), "wire {}", self.name);
        signal.builder.module.output(format!("v__{}", self.name), signal.node);
    }
}

/// An instance of another module. Every input of that module must be driven once.
pub struct Instance<'a> {
    builder: &'a Builder<'a>,
    prefix: String,
}

impl<'a> Instance<'a> {
    /// Value of an output port. May be asked for once.
    #[must_use]
    pub fn output(&self, port: &str, width: u32) -> Signal<'a> {
        self.builder.wrap(self.builder.module.input(format!("x__{}__{port}", self.prefix), width))
    }

    /// Drives an input port.
    pub fn drive(&self, port: &str, signal: Signal<'a>) {
        self.builder.module.output(format!("y__{}__{port}", self.prefix), signal.node);
    }
}
