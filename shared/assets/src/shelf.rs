//! Stored outputs, for reading only.

use crate::config::{StoreConfig, VaultConfigError};
use crate::location::Location;
use crate::store::{SignedUrl, Store, StoreError};
use std::path::PathBuf;
use std::time::Duration;

/// Where a stored output can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this file.
    File(PathBuf),
    /// At this address, for a while.
    Address(SignedUrl),
    /// Nowhere that this store can name.
    Nowhere,
}

/// A store of outputs that is only read. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shelf {
    store: Store,
}

impl Shelf {
    /// Opens the store that outputs are saved in.
    ///
    /// # Errors
    /// [`VaultConfigError`] when the configuration can't work; the message names the entry.
    pub fn open(config: &StoreConfig) -> Result<Self, VaultConfigError> {
        Store::open(config).map(|store| Self { store })
    }

    /// Where an output can be read; an address that this takes works for `lifetime`. A location that parsed never leads
    /// out of the store.
    ///
    /// # Errors
    /// [`StoreError`] when no address can be signed.
    pub async fn place_of(&self, location: &Location, lifetime: Duration) -> Result<Place, StoreError> {
        if let Some(path) = self.store.path_of(location) {
            return Ok(Place::File(path));
        }
        let address = self.store.sign(&location.to_string(), lifetime).await?;
        Ok(address.map_or(Place::Nowhere, Place::Address))
    }
}
