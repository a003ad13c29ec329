//! Where an output lies in the store: `parent/member/attempt-sha256.ext`.
//!
//! The `#` of a key becomes `/`, so `POST#p1/SHOT#s1`, attempt 2, lies at `POST/p1/SHOT/s1/2-<sha256>.png`, and
//! `EPISODE#main#000013/FRAME#2` at `EPISODE/main/000013/FRAME/2/1-<sha256>.mp4`. Ids hold neither `#` nor `/`, so no
//! two keys share a folder. The ids `.` and `..`, which a file system would follow, are written `%2E` and `%2E%2E`;
//! ids hold no `%`, so these too are unique.

use glassline_protocol::ids::{Attempt, Id, JobKey, MemberKey, ParentKey};

/// A parsed location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The job.
    pub job: JobKey,
    /// Its attempt.
    pub attempt: Attempt,
    /// SHA-256 of the bytes, 64 lower-case hex digits.
    pub sha256: String,
    /// The extension, lower-case letters and digits.
    pub extension: String,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.job.parent {
            ParentKey::Post(id) => write!(f, "POST/{}", escape(id))?,
            ParentKey::Episode { series, number } => write!(f, "EPISODE/{}/{number:06}", escape(series))?,
        }
        match &self.job.member {
            MemberKey::Shot(id) => write!(f, "/SHOT/{}", escape(id))?,
            MemberKey::Frame(number) => write!(f, "/FRAME/{number}")?,
        }
        write!(f, "/{}-{}.{}", self.attempt, self.sha256, self.extension)
    }
}

impl Location {
    /// Reads a location back. `None` for every text that [`Location`] doesn't write, so that a location which parses
    /// never leads out of the store.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let parent = match parts.next()? {
            "POST" => ParentKey::Post(unescape(parts.next()?)?),
            "EPISODE" => {
                let series = unescape(parts.next()?)?;
                ParentKey::Episode { series, number: parts.next()?.parse().ok()? }
            }
            _ => return None,
        };
        let member = match parts.next()? {
            "SHOT" => MemberKey::Shot(unescape(parts.next()?)?),
            "FRAME" => MemberKey::Frame(parts.next()?.parse().ok()?),
            _ => return None,
        };
        let (name, extension) = parts.next()?.split_once('.')?;
        let (attempt, sha256) = name.split_once('-')?;
        let hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if sha256.len() != 64 || !sha256.bytes().all(hex) {
            return None;
        }
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if !(1..=8).contains(&extension.len()) || !extension.bytes().all(plain) {
            return None;
        }
        let found = Self {
            job: JobKey { parent, member },
            attempt: attempt.parse().ok()?,
            sha256: sha256.to_owned(),
            extension: extension.to_owned(),
        };
        // Numbers have one text each, and nothing may follow.
        let known = found.job.to_string().parse::<JobKey>().is_ok();
        (known && found.to_string() == text).then_some(found)
    }
}

fn escape(id: &Id) -> &str {
    match id.as_str() {
        "." => "%2E",
        ".." => "%2E%2E",
        other => other,
    }
}

fn unescape(part: &str) -> Option<Id> {
    let id = match part {
        "." | ".." => return None,
        "%2E" => ".",
        "%2E%2E" => "..",
        other => other,
    };
    Id::new(id).ok()
}
