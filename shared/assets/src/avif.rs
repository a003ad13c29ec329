//! AVIF: the container must fill the file and hold the whole of a picture, and the header of its AV1 bitstream tells its
//! size. The pixels are not decoded: no decoder in Rust alone is at hand.

use crate::config::Limits;
use crate::still::{Picture, check_pixels};
use crate::validate::{Invalid, Unfit};
use avif_parse::AV1Metadata;
use mp4parse::ParseStrictness;
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
    // The container is read by a parser hardened in a browser, the bitstream's header by another.
    let read = mp4parse::read_avif(&mut Cursor::new(bytes), ParseStrictness::Normal).map_err(container)?;
    let coded = read.primary_item_coded_data().ok_or(Invalid::NoFrames)?;
    let header = AV1Metadata::parse_av1_bitstream(coded).map_err(bitstream)?;
    let size = (header.max_frame_width.get(), header.max_frame_height.get());
    check_pixels("AVIF", size, limits)?;
    // As for the others: whoever opens it will hold its pixels.
    if u64::from(size.0) * u64::from(size.1) * 4 > limits.decode_max_bytes {
        return Err(Invalid::TooLarge("memory"));
    }
    Ok(Picture { size, frames: if moving { None } else { Some(1) } })
}

fn container(error: mp4parse::Error) -> Invalid {
    match error {
        mp4parse::Error::UnexpectedEOF => Invalid::Truncated("AVIF"),
        mp4parse::Error::Unsupported(_) => Invalid::Unsupported("a rare variant of AVIF"),
        mp4parse::Error::OutOfMemory => Invalid::TooLarge("memory"),
        mp4parse::Error::InvalidData(_) | mp4parse::Error::Io(_) | mp4parse::Error::MoovMissing => {
            Invalid::corrupt("AVIF", error)
        }
    }
}

fn bitstream(error: avif_parse::Error) -> Invalid {
    match error {
        avif_parse::Error::UnexpectedEOF => Invalid::Truncated("AVIF"),
        avif_parse::Error::Unsupported(_) => Invalid::Unsupported("a rare variant of AVIF"),
        avif_parse::Error::OutOfMemory => Invalid::TooLarge("memory"),
        avif_parse::Error::InvalidData(_) | avif_parse::Error::Io(_) | avif_parse::Error::NoMoov => {
            Invalid::corrupt("AVIF", error)
        }
    }
}
