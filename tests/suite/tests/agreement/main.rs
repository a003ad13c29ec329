//! Agreement: what a transition's rule says in memory and what its rendered write does on a real engine are the same, for
//! random rows and random transitions of every kind.
#![allow(missing_docs)]

mod outcomes;
mod random;
mod rows;
mod transitions;
