//! AVIF: the container must fill the file and hold the whole of a picture, and the header of its AV1 bitstream tells its
//! size. The pixels are not decoded: no decoder in Rust alone is at hand.

use crate::config::Limits;
use crate::still::{Picture, check_pixels};
use crate::validate::{Invalid, Unfit};
use avif_parse::{AvifData, Error};
use std::io::Cursor;

/// Judges an AVIF picture. A moving one (`avis`) is judged by the picture that it shows at rest; its frames aren't
/// counted.
pub(crate) fn check(bytes: &[u8], limits: &Limits) -> Result<Picture, Invalid> {
    let moving =
        crate::mp4::whole(&mut Cursor::new(bytes), bytes.len() as u64, limits).map_err(|why| match why {
            Unfit::Invalid(Invalid::Truncated(_)) => Invalid::Truncated("AVIF"),
            Unfit::Invalid(Invalid::Corrupt { detail, .. }) => Invalid::Corrupt { kind: "AVIF", detail },
            Unfit::Invalid(other) => other,
            Unfit::Io(error) => Invalid::corrupt("AVIF", error),
        })?;
    let read = AvifData::from_reader(&mut Cursor::new(bytes)).map_err(refusal)?;
    let header = read.primary_item_metadata().map_err(refusal)?;
    let size = (header.max_frame_width.get(), header.max_frame_height.get());
    check_pixels("AVIF", size, limits)?;
    // As for the others: whoever opens it will hold its pixels.
    if u64::from(size.0) * u64::from(size.1) * 4 > limits.decode_max_bytes {
        return Err(Invalid::TooLarge("memory"));
    }
    Ok(Picture { size, frames: if moving { None } else { Some(1) } })
}

fn refusal(error: Error) -> Invalid {
    match error {
        Error::UnexpectedEOF => Invalid::Truncated("AVIF"),
        Error::Unsupported(_) => Invalid::Unsupported("a rare variant of AVIF"),
        Error::OutOfMemory => Invalid::TooLarge("memory"),
        Error::InvalidData(_) | Error::Io(_) | Error::NoMoov => Invalid::corrupt("AVIF", error),
    }
}
