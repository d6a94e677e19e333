//! Tests of the table builder: what it writes, bit for bit, what it refuses, and the files it is described by.

mod files;
mod refusals;
mod tables;
