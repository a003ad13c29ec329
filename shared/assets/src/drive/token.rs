//! The right to act for the account: a refresh token is exchanged for an access token that lasts an hour.
//!
//! <https://developers.google.com/identity/protocols/oauth2/web-server#offline>

use crate::config::DriveAccount;
use reqwest::{Client, Url};
use serde::Deserialize;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A token is renewed this long before it ends.
const MARGIN: Duration = Duration::from_secs(120);

/// Access tokens, got when needed.
pub(super) struct Tokens {
    client: Client,
    url: Url,
    account: DriveAccount,
    held: Mutex<Option<(String, Instant)>>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: u64,
}

impl Tokens {
    pub(super) fn new(client: Client, url: Url, account: DriveAccount) -> Self {
        Self { client, url, account, held: Mutex::default() }
    }

    /// An access token; the error is a text without secrets.
    pub(super) async fn get(&self) -> Result<String, String> {
        // Held while asking, so that many who need one ask once.
        let mut held = self.held.lock().await;
        if let Some((token, until)) = held.as_ref()
            && *until > Instant::now()
        {
            return Ok(token.clone());
        }
        let form = [
            ("client_id", self.account.client_id.as_str()),
            ("client_secret", self.account.client_secret.expose()),
            ("refresh_token", self.account.refresh_token.expose()),
            ("grant_type", "refresh_token"),
        ];
        let body = form_encoded(&form);
        let request = self.client.post(self.url.clone()).body(body);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.send().await.map_err(|error| error.without_url().to_string())?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("the account's token is refused with {status}: sign in again if that stays"));
        }
        let granted: Granted =
            answer.json().await.map_err(|_| "the account's token came in an unknown form".to_owned())?;
        let lifetime = Duration::from_secs(granted.expires_in.min(86_400)).saturating_sub(MARGIN);
        *held = Some((granted.access_token.clone(), Instant::now() + lifetime));
        Ok(granted.access_token)
    }

    /// Forgets a token that wasn't taken, unless another is held by now.
    pub(super) async fn forget(&self, token: &str) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|(known, _)| known == token) {
            *held = None;
        }
    }
}

/// A form's body.
fn form_encoded(pairs: &[(&str, &str)]) -> String {
    // A URL's query is written in the same way.
    let mut url = match Url::parse("form:") {
        Ok(url) => url,
        Err(_) => return String::new(),
    };
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap_or_default().to_owned()
}
