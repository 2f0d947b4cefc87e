//! Sessions over the public interface, with a model and tools made for the purpose.

mod doubles;
mod recovery;
