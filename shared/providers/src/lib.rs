//! Render providers behind the provider port: one POST per intent, every answer classified.
//!
//! [`Providers`] implements [`glassline_protocol::provider::Provider`] and picks the adapter by lane. An adapter sends a
//! submit exactly once, at every layer (see the notes in `client.rs`), and answers `Rejected` only where it is proven
//! that nothing was accepted; whatever is left is `Unknown`, and the protocol decides.
//!
//! Log events for metrics: `provider_submit_unknown`, `provider_status_word_unknown`, `provider_error_code_unknown`,
//! `provider_reference_paid_twice`, `provider_answer_unclear`, `provider_no_answer`, `provider_not_configured`,
//! `provider_address_differs`, `provider_cost_reported`. None of them carries a prompt, a key or an address.

mod answer;
mod bedrock;
mod callback;
mod client;
mod config;
mod fal;
mod generic;
mod hook;
mod jwks;
mod lane;
mod name;
mod registry;
mod replicate;
mod runway;
mod sandbox;
mod secret;
mod sigv4;
mod text;
mod wire;

pub use bedrock::BedrockLane;
pub use callback::{Callback, CallbackError, verify_callback};
pub use config::{LaneConfig, ProvidersConfig, ProvidersError, SandboxLane};
pub use fal::FalLane;
pub use generic::GenericLane;
pub use hook::CallbackRequest;
pub use lane::{EnvSecret, SecretSource};
pub use registry::{OutputAccess, Providers};
pub use replicate::ReplicateLane;
pub use runway::RunwayLane;
pub use secret::Secret;
